#include "coordinator/proof/own_referee.h"

#include <spdlog/spdlog.h>

#include "base/check.h"

namespace hearth::coordinator {

void OwnReferee::missed(std::size_t windows, const std::string& why) {
  if (windows == 0) return;
  counts_.missed += windows;
  counts_.why_missed = why;
  INVARIANT(counts_.missed <= counts_.selected, "what is missed was selected");
  spdlog::warn("this server's referee does not recompute {} windows: {}", windows, why);
}

bool OwnReferee::add(const Key& key, ledger::RefereeCase request) {
  if (waiting_.size() >= kQueue) return false;
  waiting_.emplace_back(key, std::move(request));
  return true;
}

// The request under computation stays: the referee cannot be interrupted.
void OwnReferee::drop(const Key& key) {
  std::erase_if(waiting_, [&key](const auto& one) { return one.first == key; });
}

std::optional<OwnReferee::Ask> OwnReferee::take_ask(std::int64_t now) {
  if (asked_ || waiting_.empty()) return std::nullopt;
  auto [key, request] = std::move(waiting_.front());
  waiting_.pop_front();
  request.until = now + kSeconds;
  asked_.emplace(next_, key);
  return Ask{next_++, std::move(request)};
}

std::optional<OwnReferee::Key> OwnReferee::answered(std::uint64_t number) {
  if (!asked_ || asked_->first != number) return std::nullopt;
  const Key key = asked_->second;
  asked_.reset();
  return key;
}

}  // namespace hearth::coordinator
