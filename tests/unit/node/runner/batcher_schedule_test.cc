#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "node/runner/batcher.h"

namespace hearth::node {
namespace {

constexpr Epoch kEpoch{7};
constexpr std::uint32_t kOpens = 256;  // limits that the model knows by itself
constexpr std::uint32_t kReleases = 4096;

// The rules of batcher.h with lists and loops alone.
struct Model {
  struct One {
    std::uint64_t id;
    std::uint32_t prompt;
    std::uint32_t sent = 0;  // rows
    bool opened = false;
    bool background = false;
  };
  BatcherOptions options;
  bool turn = false;                 // of prompts in the background, where both kinds wait
  bool shortest[2] = {};             // whose turn it is among prompts of a kind; else the oldest's
  std::list<One> live;               // oldest first
  std::vector<std::uint64_t> ready;  // in the order of their tokens
  std::vector<std::uint64_t> never_opened, to_release;
  std::uint64_t step = 0;
  std::uint32_t flying = 0;
  std::deque<bool> has_prompt;  // each step under way

  std::uint32_t decoding() const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(live, [](const One& one) { return one.sent >= one.prompt; }));
  }
  // Beside answers; else any step may have prompts.
  bool may_have_prompts(std::uint32_t answers) const {
    return answers == 0 || std::ranges::count(has_prompt, true) < most_flying(0);
  }
  std::uint32_t most_flying(std::uint32_t answers) const {
    if (!options.times) return options.batches_in_flight;
    std::uint32_t steps = options.times->stages + 1;
    const auto seconds_of = [&](std::uint32_t count) {
      const double rows = answers == 0 ? options.prefill_rows : 1.0 * answers / count;
      return options.times->at(std::clamp(rows, 1.0, 1.0 * options.batch_rows));
    };
    const auto one_more = [&] {
      if (answers > 0)
        return (steps + 1) * seconds_of(steps + 1).slowest <= seconds_of(steps + 1).ring;
      return (steps - 0.8) * seconds_of(steps).slowest < seconds_of(steps).ring;
    };
    while (steps < 64 && one_more()) ++steps;
    return std::min(steps, options.batches_in_flight);
  }
  One* find(std::uint64_t id) {
    for (One& one : live) {
      if (one.id == id) return &one;
    }
    return nullptr;
  }
  void end(std::uint64_t id) {
    One* one = find(id);
    if (one == nullptr) return;
    (one->opened ? to_release : never_opened).push_back(id);
    std::erase(ready, id);
    live.remove_if([&](const One& other) { return other.id == id; });
  }
  // "open", "row" and "release" in the order of a batch.
  std::vector<std::string> next() {
    std::vector<std::string> rows, opens, releases;
    const std::uint32_t most = most_flying(decoding());
    if (flying >= most) return {};
    const auto row = [&](One& one) {
      const bool sample = one.sent + 1 >= one.prompt;
      rows.push_back("row " + std::to_string(one.id) + " " + std::to_string(one.sent) +
                     (sample ? " sample" : ""));
      ++one.sent;
    };
    std::uint32_t share = 0;
    while (share * most < decoding()) ++share;
    while (!ready.empty() && rows.size() < std::min(share, options.batch_rows)) {
      row(*find(ready.front()));
      ready.erase(ready.begin());
    }
    std::uint32_t prefill = 0;
    const auto waits = [&](bool background) {
      return std::any_of(live.begin(), live.end(), [=](const One& one) {
        return one.sent < one.prompt && one.background == background;
      });
    };
    const bool may = may_have_prompts(decoding());
    const bool both = may && rows.size() < options.batch_rows && waits(false) && waits(true);
    const bool first = both && turn;
    if (both) turn = !turn;
    const auto room = [&] {
      return may && prefill < options.prefill_rows && rows.size() < options.batch_rows;
    };
    bool opened_all = true;
    for (const bool background : {first, !first}) {
      if (!opened_all || !room() || !waits(background)) continue;
      const bool by_length = shortest[background];
      shortest[background] = !by_length;
      while (opened_all && room() && waits(background)) {
        One* chosen = nullptr;
        for (One& one : live) {
          if (one.background != background || one.sent >= one.prompt) continue;
          const bool better = by_length && chosen != nullptr &&
                              one.prompt - one.sent < chosen->prompt - chosen->sent;
          if (chosen == nullptr || better) chosen = &one;
        }
        opened_all = chosen->opened || opens.size() < kOpens;
        if (!opened_all) break;
        if (!chosen->opened) opens.push_back("open " + std::to_string(chosen->id));
        chosen->opened = true;
        while (chosen->sent < chosen->prompt && room()) {
          row(*chosen);
          ++prefill;
        }
      }
    }
    for (auto* list : {&never_opened, &to_release}) {
      while (!list->empty() && releases.size() < kReleases &&
             (list != &never_opened || opens.size() < kOpens)) {
        if (list == &never_opened) opens.push_back("open " + std::to_string(list->front()));
        releases.push_back("release " + std::to_string(list->front()));
        list->erase(list->begin());
      }
    }
    if (rows.empty() && releases.empty()) return {};
    ++flying;
    has_prompt.push_back(prefill > 0);
    std::vector<std::string> all = {"step " + std::to_string(step++)};
    for (const auto* part : {&opens, &rows, &releases}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
};

std::vector<std::string> told(const std::optional<StepBatch>& batch) {
  if (!batch) return {};
  std::vector<std::string> all = {"step " + std::to_string(batch->step.value)};
  for (const SequenceOpen& open : batch->opens) {
    all.push_back("open " + std::to_string(open.sequence.value));
  }
  for (const BatchRow& row : batch->rows) {
    all.push_back("row " + std::to_string(row.sequence.value) + " " + std::to_string(row.position) +
                  (row.flags == BatchRow::kSample ? " sample" : ""));
  }
  for (const SequenceId id : batch->releases) {
    all.push_back("release " + std::to_string(id.value));
  }
  return all;
}

SubmitMessage submit_of(std::uint64_t id, std::uint32_t prompt, bool background = false) {
  SubmitMessage message;
  message.open.background = background;
  message.epoch = kEpoch;
  message.open.sequence = SequenceId(id);
  message.open.prompt_tokens = prompt;
  message.prompt.assign(prompt, static_cast<TokenId>(id));
  return message;
}

// Answers a step of the batcher and of the model, ending some sequences.
void answer(Batcher& batcher, Model& model, const StepBatch& batch, SeededRandom& random) {
  StepTokens tokens{batch.epoch, batch.step, {}, batch.releases};
  for (const BatchRow& row : batch.rows) {
    if ((row.flags & BatchRow::kSample) == 0) continue;
    SampledToken token;
    token.sequence = row.sequence;
    token.position = row.position + 1;
    if (random.next() % 12 == 0) token.finish = FinishReason::kStop;
    tokens.tokens.push_back(token);
    if (token.finish != FinishReason::kNone) {
      model.end(row.sequence.value);
    } else if (model.find(row.sequence.value) != nullptr) {
      model.ready.push_back(row.sequence.value);
    }
  }
  --model.flying;
  model.has_prompt.pop_front();
  ASSERT_TRUE(batcher.on_tokens(tokens).ok());
}

TEST(BatcherSchedule, EveryStepIsTheOneThatTheRulesName) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SeededRandom random(seed);
    BatcherOptions options{kEpoch, 0, 0, 0};
    options.batch_rows = 1 + static_cast<std::uint32_t>(random.next() % 20);
    options.prefill_rows = 1 + static_cast<std::uint32_t>(random.next() % options.batch_rows);
    options.batches_in_flight = 1 + static_cast<std::uint32_t>(random.next() % 5);
    if (seed % 2 == 1) {
      const auto millisecond = [&] { return 1e-3 * static_cast<double>(1 + random.next() % 9); };
      options.times.emplace();
      options.times->stages = 1 + static_cast<std::uint32_t>(random.next() % 3);
      options.times->parts = {{millisecond(), millisecond()}, {0.0, millisecond()}};
      options.times->ring = {4.0 * options.times->parts.front().one, 60e-3};
      options.batches_in_flight = placement::steps_at_most(*options.times);
      if (random.next() % 3 == 0) options.batches_in_flight = 2;
    }
    Batcher batcher(options);
    Model model;
    model.options = options;
    std::deque<StepBatch> ring;
    std::uint64_t id = 0;
    for (int event = 0; event < 500; ++event) {
      const std::uint64_t kind = random.next() % 8;
      if (kind < 2) {
        const auto prompt = static_cast<std::uint32_t>(1 + random.next() % 30);
        const bool background = random.next() % 3 == 0;
        ASSERT_TRUE(batcher.submit(submit_of(++id, prompt, background)).ok());
        model.live.push_back({id, prompt, 0, false, background});
      } else if (kind == 2 && id > 0) {
        const std::uint64_t victim = 1 + random.next() % id;
        batcher.cancel(SequenceId(victim));
        model.end(victim);
      } else if (kind < 6 && !ring.empty()) {
        answer(batcher, model, ring.front(), random);
        ring.pop_front();
      } else {
        auto batch = batcher.next();
        ASSERT_EQ(told(batch), model.next()) << "seed " << seed << ", event " << event;
        for (const SequenceOpen& open : batch ? batch->opens : std::vector<SequenceOpen>()) {
          ASSERT_FALSE(open.background) << "the first stage's to know";
        }
        if (batch) ring.push_back(std::move(*batch));
      }
      ASSERT_EQ(batcher.sequences(), model.live.size());
      ASSERT_EQ(batcher.steps_in_flight(), ring.size());
    }
  }
}

// Over a link that is long for its stages: more steps, with fewer rows each.
TEST(BatcherSchedule, StepsInFlightFollowTheTimesOfTheirRows) {
  BatcherOptions options{kEpoch, 512, 64, 40};
  options.times.emplace();
  options.times->stages = 4;
  options.times->parts = {{10e-3, 10e-3}};
  options.times->ring = {160e-3, 160e-3};  // 16 steps
  Batcher batcher(options);
  for (std::uint64_t id = 1; id <= 48; ++id) ASSERT_TRUE(batcher.submit(submit_of(id, 1)).ok());
  const auto first = batcher.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->rows.size(), 48U);  // prompts
  StepTokens tokens{first->epoch, first->step, {}, {}};
  for (const BatchRow& row : first->rows) {
    SampledToken token;
    token.sequence = row.sequence;
    token.position = row.position + 1;
    tokens.tokens.push_back(token);
  }
  ASSERT_TRUE(batcher.on_tokens(tokens).ok());
  std::uint32_t steps = 0;
  while (const auto batch = batcher.next()) {
    EXPECT_EQ(batch->rows.size(), 3U);  // two of 17 steps or more
    ++steps;
  }
  EXPECT_EQ(steps, 16U);
}

// Rows of one answer take as many steps; those of prompts fill the link, and three are enough.
TEST(BatcherSchedule, PromptsBesideAnAnswerTakeNoMoreStepsThanTheyNeed) {
  BatcherOptions options{kEpoch, 512, 128, 40};
  options.itl_target = std::chrono::hours(1);
  options.times.emplace();
  options.times->stages = 2;
  options.times->parts = {{4e-3, 4e-3}, {6.5e-3, 105e-3}};
  options.times->ring = {94.5e-3, 193e-3};
  EXPECT_GT(placement::steps_of_sequences(*options.times, 1), 12U);
  Batcher batcher(options);
  ASSERT_TRUE(batcher.submit(submit_of(1, 1)).ok());
  const auto first = batcher.next();
  ASSERT_TRUE(first.has_value());
  StepTokens tokens{first->epoch, first->step, {}, {}};
  tokens.tokens.emplace_back();
  tokens.tokens.back().sequence = SequenceId(1);
  tokens.tokens.back().position = 1;
  ASSERT_TRUE(batcher.on_tokens(tokens).ok());
  ASSERT_TRUE(batcher.submit(submit_of(2, 4000)).ok());
  std::uint32_t steps = 0;
  while (batcher.next()) ++steps;
  EXPECT_EQ(steps, 3U);
}

TEST(BatcherSchedule, APromptWaitsForNoMoreThanItsOwnLengthOfTheBackground) {
  Batcher batcher({kEpoch, 512, 10, 100});
  ASSERT_TRUE(batcher.submit(submit_of(1, 200, true)).ok());
  ASSERT_TRUE(batcher.submit(submit_of(2, 200, true)).ok());
  ASSERT_TRUE(batcher.next());
  ASSERT_TRUE(batcher.submit(submit_of(3, 30)).ok());
  std::vector<std::uint64_t> order;  // whose chunk each step has
  for (int i = 0; i < 7; ++i) order.push_back(batcher.next()->rows.front().sequence.value);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 1, 3, 1, 3, 1, 1}));
}

TEST(BatcherSchedule, OpensAndReleasesOfOneStepStayWithinTheirLimits) {
  for (const bool cancel : {false, true}) {
    Batcher batcher({kEpoch, 512, 512, 100});
    for (std::uint64_t id = 1; id <= 600; ++id) ASSERT_TRUE(batcher.submit(submit_of(id, 1)).ok());
    for (std::uint64_t id = 1; cancel && id <= 600; ++id) batcher.cancel(SequenceId(id));
    std::vector<std::size_t> opens;
    std::size_t released = 0;
    while (auto batch = batcher.next()) {
      opens.push_back(batch->opens.size());
      released += batch->releases.size();
    }
    EXPECT_EQ(opens, (std::vector<std::size_t>{256, 256, 88}));
    EXPECT_EQ(released, cancel ? 600U : 0U);
  }
}

TEST(BatcherSchedule, IdsMayComeInAnyOrderButNeverTwice) {
  SeededRandom random(9);
  Batcher batcher({kEpoch, 512, 128, 2});
  std::map<std::uint64_t, bool> seen;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t base = random.next() % 3 == 0 ? ~std::uint64_t{0} - 99 : 0;
    const std::uint64_t id = base + random.next() % 100;
    ASSERT_EQ(batcher.submit(submit_of(id, 1)).ok(), !seen[id]) << id;
    seen[id] = true;
    if (random.next() % 2 == 0) batcher.cancel(SequenceId(id));
  }
}

}  // namespace
}  // namespace hearth::node
