#include "coordinator/machine/canaries.h"

#include <algorithm>
#include <utility>

#include "ledger/policy.h"

namespace hearth::coordinator {
namespace {

// Before any client has asked.
constexpr std::uint32_t kFirstPrompt = 32;
constexpr std::uint32_t kFirstAnswer = 64;

template <typename T>
void keep(std::vector<T>& all, std::size_t most, std::size_t& next, T one) {
  if (all.size() < most) return all.push_back(std::move(one));
  all[next] = std::move(one);
  next = (next + 1) % most;
}

}  // namespace

void Canaries::saw(const GenerateRequest& request, bool checked) {
  Shape shape;
  shape.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  shape.sampling = request.sampling;
  // What says something of its content stays behind.
  shape.sampling.seed = 0;
  shape.sampling.logit_bias.clear();
  shape.sampling.stop_tokens.clear();
  keep(shapes_, kShapes, next_shape_, std::move(shape));
  if (!checked || due_ >= kDueMost) return;
  if (below(ledger::kMillion) < static_cast<std::uint64_t>(rate_)) ++due_;
}

void Canaries::heard(const std::vector<TokenId>& answer) {
  for (const TokenId token : answer) {
    if (std::ranges::count(words_.end_tokens, token) > 0) continue;
    keep(text_, kTextTokens, next_token_, token);
  }
}

bool Canaries::due(TimePoint now, bool idle) {
  if (due_ > 0) {
    --due_;
    return true;
  }
  if (!idle || now < next_idle_) return false;
  const auto spread = static_cast<std::uint64_t>((kIdleMost - kIdleLeast).count());
  next_idle_ = now + kIdleLeast + Duration(static_cast<Duration::rep>(below(spread)));
  return true;
}

// Of what there is a piece from anywhere; before there is any, one word that means nothing.
std::vector<TokenId> Canaries::text(std::size_t tokens) {
  if (text_.empty()) return {static_cast<TokenId>(below(shape_.vocabulary))};
  const std::size_t count = std::clamp<std::size_t>(tokens, 1, text_.size());
  const std::size_t first = below(text_.size());
  std::vector<TokenId> piece;
  for (std::size_t i = 0; i < count; ++i) piece.push_back(text_[(first + i) % text_.size()]);
  return piece;
}

GenerateRequest Canaries::make() {
  Shape shape{kFirstPrompt, {}};
  shape.sampling.max_tokens = kFirstAnswer;
  if (!shapes_.empty()) shape = shapes_[below(shapes_.size())];
  const auto prompt_of = [this](const std::vector<TokenId>& words) {
    return words_.prompt_of ? words_.prompt_of(words) : words;
  };
  const std::size_t frame = prompt_of({}).size();
  const std::size_t wanted = shape.prompt_tokens > frame ? shape.prompt_tokens - frame : 1;
  GenerateRequest request;
  request.prompt = prompt_of(text(wanted));
  request.sampling = std::move(shape.sampling);
  request.sampling.seed = random_.next();
  request.sampling.stop_tokens = words_.end_tokens;
  const auto room =
      shape_.context - std::min<std::size_t>(request.prompt.size() + 1, shape_.context);
  request.sampling.max_tokens = std::clamp<std::uint32_t>(
      request.sampling.max_tokens, 1, std::max<std::uint32_t>(1, static_cast<std::uint32_t>(room)));
  request.origin = Origin::kCanary;
  request.policy.share = true;
  return request;
}

}  // namespace hearth::coordinator
