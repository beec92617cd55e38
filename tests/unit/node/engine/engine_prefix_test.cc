#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "node/engine/kv_cache.h"
#include "tests/unit/node/engine/kept_rows.h"

namespace hearth::node {
namespace {

const Hash256 kScope = blake2b({});

class EnginePrefixTest : public KeptRowsTest {
 protected:
  // A whole sequence of a prompt of `prompt` rows and an answer up to `end`; it is released then.
  static StepResult run(Engine& engine, SequenceId id, std::uint32_t seed, Position prompt,
                        Position end, const std::optional<Hash256>& scope, StepBatch* out = {}) {
    StepBatch batch = rows_of(id, seed, 0, end, true);
    batch.opens[0].prompt_tokens = prompt;
    batch.opens[0].scope = scope;
    for (BatchRow& row : batch.rows) {
      if (row.position + 1 == prompt) row.flags |= BatchRow::kSample;
    }
    const StepResult result = step(engine, batch);
    StepBatch last;
    last.releases = {id};
    step(engine, last);
    if (out != nullptr) *out = std::move(batch);
    return result;
  }
};

TEST_F(EnginePrefixTest, AnotherSequenceOfTheScopeFindsIt) {
  auto engine = load({0, 2}, kRoom);
  StepBatch first;
  run(*engine, kA, 1, 40, 60, kScope, &first);
  EXPECT_EQ(engine->kv_pages_used(), 0U) << "what is kept is free";
  StepBatch second;
  const StepResult again = run(*engine, kB, 1, 60, 64, kScope, &second);
  EXPECT_EQ(again.replayed, 60U);
  EXPECT_TRUE(
      std::equal(first.activations.begin(), first.activations.end(), second.activations.begin()));
  EXPECT_EQ(std::ranges::count_if(second.rows, &BatchRow::cached), 60);
  EXPECT_EQ(run(*engine, kB, 1, 60, 64, blake2b(Bytes(1))).replayed, 0U) << "another scope";
  EXPECT_EQ(run(*engine, kB, 1, 60, 64, std::nullopt).replayed, 0U) << "no scope";
  EXPECT_EQ(run(*engine, SequenceId(7), 2, 60, 64, kScope).replayed, 0U) << "other rows";
}

TEST_F(EnginePrefixTest, WithoutAScopeNothingIsLeft) {
  auto engine = load({0, 2}, kRoom);
  run(*engine, kA, 1, 40, 60, std::nullopt);
  EXPECT_EQ(run(*engine, kA, 1, 40, 60, std::nullopt).replayed, 0U);
  EXPECT_EQ(run(*engine, kB, 1, 40, 60, kScope).replayed, 0U);
}

// The last stage counts what every stage before it had, too, and says it with the first token.
TEST_F(EnginePrefixTest, TheLastStageTellsWhatNoStageComputed) {
  auto first = load({0, 2}, kRoom);
  auto last = load({2, 4}, kRoom);
  const auto ask = [&](SequenceId id, Position prompt, Position end) {
    StepBatch batch = rows_of(id, 1, 0, end);
    batch.opens[0].prompt_tokens = prompt;
    batch.opens[0].scope = kScope;
    batch.rows[prompt - 1].flags |= BatchRow::kSample;
    batch.rows.back().flags |= BatchRow::kSample;
    step(*first, batch);
    const StepResult result = step(*last, batch);
    StepBatch ended;
    ended.releases = {id};
    step(*first, ended);
    step(*last, ended);
    return result;
  };
  EXPECT_TRUE(ask(kA, 40, 50).cached.empty());
  const StepResult again = ask(kB, 45, 60);
  EXPECT_EQ(again.cached, (std::vector<CachedPrefix>{{kB, 44}}));
  EXPECT_EQ(again.kv_pages_kept, 0U) << "while it is open";
  first->reset();
  EXPECT_TRUE(ask(SequenceId(3), 45, 60).cached.empty()) << "the first stage computes all";
}

// Both go on from one page at once, each with rows of its own.
TEST_F(EnginePrefixTest, SequencesShareWhatTheyHaveInCommon) {
  auto engine = load({0, 4}, kRoom);
  auto fresh = load({0, 4}, 0);
  run(*engine, kA, 1, 64, 64, kScope);
  StepBatch both = rows_of(kA, 1, 0, 64);
  both.opens[0].prompt_tokens = 64;
  both.opens[0].scope = kScope;
  StepBatch other = rows_of(kB, 1, 0, 64);
  step(*engine, both);
  const std::uint32_t pages = engine->kv_pages_used();
  other.opens[0].prompt_tokens = 64;
  other.opens[0].scope = kScope;
  EXPECT_EQ(step(*engine, other).replayed, 64U);
  EXPECT_EQ(engine->kv_pages_used(), pages);
  for (Engine* one : {engine.get(), fresh.get()}) {
    if (one == fresh.get()) {
      StepBatch whole = rows_of(kA, 1, 0, 64);
      whole.opens[0].prompt_tokens = 64;
      step(*one, whole);
      whole = rows_of(kB, 1, 0, 64);
      whole.opens[0].prompt_tokens = 64;
      step(*one, whole);
    }
    StepBatch more = rows_of(kA, 2, 64, 80, true);
    const StepBatch of_other = rows_of(kB, 3, 64, 80, true);
    more.rows.insert(more.rows.end(), of_other.rows.begin(), of_other.rows.end());
    step(*one, more);
  }
  EXPECT_EQ(engine->kv_hashes(kA).value(), fresh->kv_hashes(kA).value());
  EXPECT_EQ(engine->kv_hashes(kB).value(), fresh->kv_hashes(kB).value());
}

// The last stage computes a sampled row again. Of one page, two threads of a step would write it.
TEST_F(EnginePrefixTest, APageWithASampledRowIsNotShared) {
  auto engine = load({0, 4}, kRoom);
  const StepResult wanted = run(*engine, kA, 1, 32, 32, kScope);
  StepBatch both;
  for (const SequenceId id : {kA, kB}) {
    StepBatch one = rows_of(id, 1, 0, 32, true);
    one.opens[0].prompt_tokens = 32;
    one.opens[0].scope = kScope;
    both.opens.push_back(one.opens[0]);
    both.rows.insert(both.rows.end(), one.rows.begin(), one.rows.end());
  }
  const StepResult result = step(*engine, both);
  EXPECT_EQ(engine->kv_pages_used(), 2U);
  ASSERT_EQ(result.tokens.size(), 2U);
  for (const SampledToken& token : result.tokens) {
    EXPECT_EQ(token.token, wanted.tokens.at(0).token);
  }
}

// Where only some pages have room for rows, the newest sequence has them.
TEST_F(EnginePrefixTest, TheNewestIsKeptWhereRoomIsShort) {
  const std::uint64_t page = 32 * (sizeof(Hash256) + spec_.hidden * 2);
  auto engine = load({0, 2}, 2 * page);
  ASSERT_GT(engine->kv_pages(), 8U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    run(*engine, SequenceId(10 + i), i, 64, 64, kScope);
    EXPECT_EQ(run(*engine, SequenceId(20 + i), i, 64, 64, kScope).replayed, 64U) << i;
  }
}

// A request that was given up is kept as far as its rows are finished.
TEST_F(EnginePrefixTest, WhatIsGivenUpIsKept) {
  auto engine = load({0, 2}, kRoom);
  StepBatch batch = rows_of(kA, 1, 0, 40);
  batch.opens[0].prompt_tokens = 90;
  batch.opens[0].scope = kScope;
  step(*engine, batch);
  batch = rows_of(kA, 1, 40, 45);
  batch.releases = {kA};  // in the step that has its last rows
  step(*engine, batch);
  EXPECT_EQ(run(*engine, kB, 1, 60, 60, kScope).replayed, 40U);
}

// Conversations of two scopes: they branch, are edited, cut and given up, three at once.
class Conversations {
 public:
  explicit Conversations(std::uint32_t seed) : random_(seed) {}
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  bool idle() const { return open_.empty(); }
  void lose() { open_.clear(); }

  StepBatch next() {
    StepBatch batch;
    if (open_.size() < 3 && below(2) == 0) begin(batch);
    for (auto it = open_.begin(); it != open_.end();) {
      Turn& one = it->second;
      const SequenceId id(it->first);
      if (one.next > 0 && (below(9) == 0 || one.next == one.end)) {
        told_[one.conversation] = one.tokens;
        batch.releases.push_back(id);
        it = open_.erase(it);
        continue;
      }
      if (!add_rows(batch, id, one)) break;
      ++it;
    }
    return batch;
  }

  void take(const std::vector<SampledToken>& tokens) {
    for (const SampledToken& token : tokens) {
      const auto found = open_.find(token.sequence.value);
      if (found == open_.end()) continue;
      Turn& one = found->second;
      if (token.finish == FinishReason::kNone) {
        one.tokens.push_back(token.token);
      } else {
        one.end = one.next;
      }
    }
  }

 private:
  struct Turn {
    std::uint32_t conversation = 0;
    std::uint32_t prompt = 0;
    Position next = 0;
    Position end = 0;
    std::vector<TokenId> tokens;
  };

  // What is asked next; the words are few, so that conversations begin alike.
  std::vector<TokenId> words(std::vector<TokenId> text) {
    const auto any = [&] { return below(static_cast<std::uint32_t>(text.size())); };
    if (below(5) == 0) text = told_[below(4)];  // a branch
    if (below(5) == 0 && text.size() > 2) text.resize(any());
    if (below(6) == 0 && !text.empty()) text[any()] = 299;
    if (text.size() > 110) text.clear();
    for (std::uint32_t i = below(30) + 1; i > 0; --i) {
      text.push_back(static_cast<TokenId>(3 + below(6)));
    }
    return text;
  }

  void begin(StepBatch& batch) {
    Turn one;
    one.conversation = below(4);
    one.tokens = words(told_[one.conversation]);
    one.prompt = static_cast<std::uint32_t>(one.tokens.size());
    one.end = one.prompt + 14;
    const SequenceId id(next_id_++);
    SequenceOpen& open = batch.opens.emplace_back();
    open.sequence = id;
    open.prompt_tokens = one.prompt;
    open.report_hashes = true;
    open.sampling.max_tokens = 16;
    open.sampling.repetition_penalty = below(2) == 0 ? 1.0F : 1.3F;
    open.sampling.seed = below(3);
    if (below(8) != 0) open.scope = blake2b(Bytes(1 + one.conversation % 2));
    open_.emplace(id.value, std::move(one));
  }

  bool add_rows(StepBatch& batch, SequenceId id, Turn& one) {
    const Position end =
        one.next < one.prompt ? std::min(one.prompt, one.next + 8 + below(25)) : one.next + 1;
    if (batch.rows.size() + end - one.next > 64) return false;
    for (; one.next < end; ++one.next) {
      const bool last = one.next + 1 >= one.prompt;
      batch.rows.push_back(
          {id, one.next, one.tokens[one.next], last ? BatchRow::kSample : std::uint8_t{0}});
    }
    return true;
  }

  std::mt19937 random_;
  std::array<std::vector<TokenId>, 4> told_;
  std::map<std::uint64_t, Turn> open_;
  std::uint64_t next_id_ = 1;
};

// Three stages that keep and three that never do, with machines lost and too few pages to keep all:
// in every boundary the same bits, and no step fails for want of a page.
TEST_F(EnginePrefixTest, RandomConversationsGiveTheSameBits) {
  const std::array<LayerRange, 3> stages{LayerRange{0, 1}, LayerRange{1, 3}, LayerRange{3, 4}};
  std::uint64_t replayed = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    Conversations talk(seed);
    std::vector<std::unique_ptr<Engine>> kept;
    std::vector<std::unique_ptr<Engine>> plain;
    for (const LayerRange& layers : stages) {
      const std::size_t budget =
          (16 + talk.below(30)) * KvCache::page_bytes(spec_.kv_layouts(layers));
      kept.push_back(load(layers, talk.below(3) == 0 ? 60'000 : kRoom, budget));
      plain.push_back(load(layers, 0, budget));
    }
    for (std::uint32_t turn = 0; turn < 150; ++turn) {
      StepBatch batch = talk.next();
      StepBatch same = batch;
      for (std::uint32_t i = 0; i < 3; ++i) {
        const StepResult again = step(*kept[i], batch);
        const StepResult wanted = step(*plain[i], same);
        ASSERT_TRUE(std::ranges::none_of(batch.rows, &BatchRow::failed)) << "seed " << seed;
        ASSERT_EQ(batch.activations, same.activations) << "seed " << seed << ", stage " << i;
        ASSERT_EQ(again.tokens, wanted.tokens) << "seed " << seed;
        ASSERT_EQ(again.hashes, wanted.hashes) << "seed " << seed;
        ASSERT_LE(kept[i]->kv_pages_used(), plain[i]->kv_pages_used());
        replayed += again.replayed;
        talk.take(again.tokens);
      }
      if (talk.below(25) == 0) {
        kept[talk.below(3)]->reset();
        talk.lose();
      }
      if (!talk.idle()) continue;
      for (auto& engine : kept) engine->keep();
      for (auto& engine : plain) engine->reset();
    }
  }
  EXPECT_GT(replayed, 2'000U);
}

}  // namespace
}  // namespace hearth::node
