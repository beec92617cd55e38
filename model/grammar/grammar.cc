#include "model/grammar/grammar.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/limits.h"
#include "model/grammar/encoding.h"

namespace hearth::model {
namespace {

constexpr std::uint8_t kEncodingVersion = 1;
constexpr std::uint32_t kNoHeight = std::numeric_limits<std::uint32_t>::max();

class NumberWriter {
 public:
  explicit NumberWriter(Bytes& out) : out_(out) {}
  void byte(std::uint8_t value) { out_.push_back(std::byte{value}); }
  void number(std::uint32_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<std::uint8_t>(value | 0x80));
    byte(static_cast<std::uint8_t>(value));
  }
  void state(std::size_t at, std::uint32_t to) {
    const auto here = static_cast<std::uint32_t>(at);
    number(to >= here ? 2 * (to - here) : 2 * (here - to) - 1);
  }

 private:
  Bytes& out_;
};

}  // namespace

Bytes encode_states(const std::vector<EncodedState>& states) {
  Bytes out;
  NumberWriter writer(out);
  writer.byte(kEncodingVersion);
  writer.number(static_cast<std::uint32_t>(states.size()));
  for (std::size_t i = 0; i < states.size(); ++i) {
    const EncodedState& state = states[i];
    writer.number(2 * static_cast<std::uint32_t>(state.bytes.size()) + (state.final ? 1 : 0));
    for (const Grammar::ByteEdge& edge : state.bytes) {
      writer.byte(edge.low);
      writer.byte(edge.high);
      writer.state(i, edge.next);
    }
    writer.number(static_cast<std::uint32_t>(state.calls.size()));
    for (const Grammar::CallEdge& edge : state.calls) {
      writer.state(i, edge.start);
      writer.number(edge.min);
      writer.number(edge.max == Grammar::kNoLimit ? 0 : edge.max + 1);
      writer.state(i, edge.next);
    }
  }
  return out;
}

// Reads and checks one encoded grammar.
class GrammarReader {
 public:
  explicit GrammarReader(ByteSpan bytes) : bytes_(bytes) {}

  Result<std::shared_ptr<const Grammar>> read();

 private:
  std::uint8_t byte() {
    if (at_ >= bytes_.size()) {
      failed_ = true;
      return 0;
    }
    return std::to_integer<std::uint8_t>(bytes_[at_++]);
  }
  std::uint32_t number();
  std::uint32_t state(std::size_t from);
  Status read_state(std::size_t index);
  void find_users();
  std::uint32_t height_by_edges(std::uint32_t at) const;
  void find_heights();
  void find_nullable();
  Status check_left_calls() const;

  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
  std::uint32_t count_ = 0;
  std::vector<std::vector<std::uint32_t>> users_;  // by state: those with an edge that names it
  std::vector<bool> nullable_;  // by state: the rule can end here without reading a byte
  std::shared_ptr<Grammar> out_{new Grammar()};
};

std::uint32_t GrammarReader::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    const std::uint8_t next = byte();
    value |= std::uint64_t{next & 0x7FU} << shift;
    if (next >= 0x80) continue;
    // A zero behind another byte is not the shortest form.
    if ((next == 0 && shift > 0) || value > 0xFFFFFFFF) failed_ = true;
    return static_cast<std::uint32_t>(value);
  }
  failed_ = true;
  return 0;
}

std::uint32_t GrammarReader::state(std::size_t from) {
  const std::uint32_t coded = number();
  const std::int64_t distance =
      coded % 2 == 0 ? std::int64_t{coded / 2} : -(std::int64_t{coded / 2} + 1);
  const std::int64_t to = static_cast<std::int64_t>(from) + distance;
  if (to < 0 || to >= count_) failed_ = true;
  return failed_ ? 0 : static_cast<std::uint32_t>(to);
}

Status GrammarReader::read_state(std::size_t index) {
  Grammar& out = *out_;
  Grammar::State one;
  one.bytes = static_cast<std::uint32_t>(out.byte_edges_.size());
  one.calls = static_cast<std::uint32_t>(out.call_edges_.size());
  const std::uint32_t head = number();
  one.final = head % 2 == 1;
  out.states_.push_back(one);
  REQUIRE(head / 2 <= 256, "grammar: state ", index, " has ", head / 2, " byte edges of 256");
  int last = -1;
  for (std::uint32_t i = 0; i < head / 2 && !failed_; ++i) {
    Grammar::ByteEdge edge;
    edge.low = byte();
    edge.high = byte();
    edge.next = state(index);
    REQUIRE(failed_ || (edge.low > last && edge.low <= edge.high), "grammar: state ", index,
            " has byte edges that overlap or are out of order");
    last = edge.high;
    out.byte_edges_.push_back(edge);
  }
  const std::uint32_t calls = number();
  for (std::uint32_t i = 0; i < calls && !failed_; ++i) {
    Grammar::CallEdge edge;
    edge.start = state(index);
    edge.min = number();
    const std::uint32_t max = number();
    edge.max = max == 0 ? Grammar::kNoLimit : max - 1;
    edge.next = state(index);
    REQUIRE(
        failed_ || (edge.max >= 1 && edge.min <= edge.max && edge.min <= limits::kGrammarRepeat &&
                    (max == 0 || edge.max <= limits::kGrammarRepeat)),
        "grammar: a call of state ", index, " repeats from ", edge.min, " to ", edge.max,
        " times; the limit is ", limits::kGrammarRepeat);
    out.call_edges_.push_back(edge);
  }
  REQUIRE(!failed_, "grammar: state ", index, " is cut off or not of the form");
  return ok_status();
}

void GrammarReader::find_users() {
  const Grammar& out = *out_;
  users_.assign(count_, {});
  for (std::uint32_t i = 0; i < count_; ++i) {
    for (std::uint32_t e = out.states_[i].bytes; e < out.states_[i + 1].bytes; ++e) {
      users_[out.byte_edges_[e].next].push_back(i);
    }
    for (std::uint32_t e = out.states_[i].calls; e < out.states_[i + 1].calls; ++e) {
      users_[out.call_edges_[e].next].push_back(i);
      users_[out.call_edges_[e].start].push_back(i);
    }
  }
}

// By way of this state's edges.
std::uint32_t GrammarReader::height_by_edges(std::uint32_t at) const {
  const Grammar& out = *out_;
  std::uint32_t best = out.states_[at].height;
  for (std::uint32_t e = out.states_[at].bytes; e < out.states_[at + 1].bytes; ++e) {
    best = std::min(best, out.states_[out.byte_edges_[e].next].height);
  }
  for (std::uint32_t e = out.states_[at].calls; e < out.states_[at + 1].calls; ++e) {
    const Grammar::CallEdge& edge = out.call_edges_[e];
    std::uint32_t way = out.states_[edge.next].height;
    if (edge.min > 0) {
      const std::uint32_t inside = out.states_[edge.start].height;
      way = inside == kNoHeight ? kNoHeight : std::max(way, inside + 1);
    }
    best = std::min(best, way);
  }
  return best;
}

// A state is settled once, at its least height, in the order of heights (as in Dijkstra's
// algorithm): the time is linear in the edges.
void GrammarReader::find_heights() {
  Grammar& out = *out_;
  std::vector<std::vector<std::uint32_t>> buckets(1);
  for (std::uint32_t i = 0; i < count_; ++i) {
    out.states_[i].height = out.states_[i].final ? 0 : kNoHeight;
    if (out.states_[i].final) buckets[0].push_back(i);
  }
  std::vector<bool> settled(count_);
  for (std::size_t height = 0; height < buckets.size(); ++height) {
    for (std::size_t i = 0; i < buckets[height].size(); ++i) {
      const std::uint32_t at = buckets[height][i];
      if (settled[at]) continue;
      settled[at] = true;
      for (const std::uint32_t user : users_[at]) {
        const std::uint32_t now = height_by_edges(user);
        if (now >= out.states_[user].height) continue;
        INVARIANT(now >= height, "heights are settled in their order");
        out.states_[user].height = now;
        if (buckets.size() <= now) buckets.resize(now + 1);
        buckets[now].push_back(user);
      }
    }
  }
}

void GrammarReader::find_nullable() {
  const Grammar& out = *out_;
  nullable_.assign(count_, false);
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (!out.states_[i].final) continue;
    nullable_[i] = true;
    open.push_back(i);
  }
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    for (const std::uint32_t user : users_[at]) {
      bool now = nullable_[user];
      if (now) continue;
      for (std::uint32_t e = out.states_[user].calls; e < out.states_[user + 1].calls; ++e) {
        const Grammar::CallEdge& edge = out.call_edges_[e];
        now = now || (nullable_[edge.next] && (edge.min == 0 || nullable_[edge.start]));
      }
      if (!now) continue;
      nullable_[user] = true;
      open.push_back(user);
    }
  }
}

// A rule that calls itself before it reads a byte would nest without end. Tarjan's components of
// "is entered without a byte" (calls, and what follows a call that may be empty): no call may lead
// back into its own component.
Status GrammarReader::check_left_calls() const {
  const Grammar& out = *out_;
  struct Visit {
    std::uint32_t state;
    std::uint32_t edge;  // counts each call twice: entered, and passed
  };
  std::vector<std::uint32_t> number(count_), low(count_), component(count_);
  std::vector<std::uint32_t> held;
  std::uint32_t numbers = 0;
  std::uint32_t components = 0;
  const auto next_of = [&](Visit& visit) -> std::optional<std::uint32_t> {
    const std::uint32_t end = 2 * out.states_[visit.state + 1].calls;
    while (visit.edge < end) {
      const Grammar::CallEdge& edge = out.call_edges_[visit.edge / 2];
      const bool passed = visit.edge++ % 2 == 1;
      if (!passed) return edge.start;
      if (edge.min == 0 || nullable_[edge.start]) return edge.next;
    }
    return std::nullopt;
  };
  for (std::uint32_t root = 0; root < count_; ++root) {
    if (number[root] != 0) continue;
    std::vector<Visit> path;
    const auto enter = [&](std::uint32_t state) {
      number[state] = low[state] = ++numbers;
      held.push_back(state);
      path.push_back({state, 2 * out.states_[state].calls});
    };
    enter(root);
    while (!path.empty()) {
      const std::uint32_t at = path.back().state;
      if (const auto to = next_of(path.back())) {
        if (number[*to] == 0) {
          enter(*to);
        } else if (component[*to] == 0) {
          low[at] = std::min(low[at], number[*to]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().state] = std::min(low[path.back().state], low[at]);
      if (low[at] != number[at]) continue;
      ++components;
      for (std::uint32_t state = count_; state != at;) {
        state = held.back();
        held.pop_back();
        component[state] = components;
      }
    }
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    for (std::uint32_t e = out.states_[i].calls; e < out.states_[i + 1].calls; ++e) {
      REQUIRE(component[out.call_edges_[e].start] != component[i],
              "the grammar has a rule that calls itself before it reads a byte");
    }
  }
  return ok_status();
}

Result<std::shared_ptr<const Grammar>> GrammarReader::read() {
  REQUIRE_SUPPORTED(bytes_.size() <= limits::kGrammarBytes, "grammar: the compiled form has ",
                    bytes_.size(), " bytes; the limit is ", limits::kGrammarBytes);
  const std::uint8_t version = byte();
  REQUIRE(!failed_ && version == kEncodingVersion, "grammar: version ", version,
          " of the form, not ", kEncodingVersion);
  count_ = number();
  REQUIRE(!failed_ && count_ >= 1 && count_ <= limits::kGrammarStates, "grammar: ", count_,
          " states; it must be from 1 to ", limits::kGrammarStates);
  for (std::size_t i = 0; i < count_; ++i) TRY_VOID(read_state(i));
  REQUIRE(at_ == bytes_.size(), "grammar: ", bytes_.size() - at_, " bytes are left over");
  Grammar::State end;
  end.bytes = static_cast<std::uint32_t>(out_->byte_edges_.size());
  end.calls = static_cast<std::uint32_t>(out_->call_edges_.size());
  out_->states_.push_back(end);
  find_users();
  find_nullable();
  for (std::uint32_t i = 0; i < count_; ++i) out_->states_[i].empty = nullable_[i];
  TRY_VOID(check_left_calls());
  find_heights();
  const std::uint32_t height = out_->states_[0].height;
  REQUIRE(height != kNoHeight, "the grammar allows no text at all");
  REQUIRE_SUPPORTED(height <= limits::kGrammarDepth, "the grammar's shortest text nests ", height,
                    " rules; the limit is ", limits::kGrammarDepth);
  out_->bytes_.assign(bytes_.begin(), bytes_.end());
  out_->hash_ = blake2b(bytes_);
  return std::shared_ptr<const Grammar>(out_);
}

Result<std::shared_ptr<const Grammar>> Grammar::parse(ByteSpan bytes) {
  return GrammarReader(bytes).read();
}

std::string control_token_bytes(TokenId token) {
  INVARIANT(token >= 0, "a token of the vocabulary has an id");
  const auto id = static_cast<std::uint32_t>(token);
  std::string out(1, static_cast<char>(kControlByte));
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(id >> shift & 0xFF);
  return out;
}

}  // namespace hearth::model
