// What cheating brings: nodes with strategies of the attack catalogue work for 90 days under the
// product's own rules (ledger/standing.h, policy.h) and its own draws (selection.h), beside an
// honest node on hardware that flips bits at a realistic rate. Prints the profit of each, in parts
// of a window's pay, with its 95 % interval; exits 1 when a cheat earns as much as honesty, or when
// honesty loses a thousandth of its profit to its own faults.
//
//   economy [--seed N] [--runs N]
//
// One node at a time: who colludes with it is a share of the auditors. Prices do not react, and a
// cheat saves its whole cost. Not played: attacks on prompts, on the network and on the
// coordinator, which no price deters.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "ledger/selection.h"
#include "ledger/standing.h"

namespace {

using namespace hearth;
using namespace hearth::ledger;

constexpr std::int64_t kDay = 24 * 3'600;
constexpr std::int64_t kStart = 20'000 * kDay;
constexpr std::int64_t kPay = 1'000;     // of a window
constexpr std::int64_t kCost = 700;      // of computing it: g = c/r = 0.7, as the policy assumes
constexpr std::int64_t kCheckPay = 190;  // of checking one
constexpr std::int64_t kCheckCost = 133;
constexpr std::int64_t kWindowSeconds = 150;
constexpr std::int64_t kWindows = 90 * kDay / kWindowSeconds;
constexpr std::uint64_t kDrawWindows = 1'024;  // receipts under one checkpoint
constexpr double kFaultRate = 1e-5;            // of an honest window

double chance(SeededRandom& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

// What a node knows when it decides.
struct Situation {
  Level level = Level::kNewcomer;
  std::int64_t window = 0;  // since the beginning
  std::int64_t faults = 0;  // that count
  std::int64_t caught = 0;  // times, so far
  std::int64_t escrow = 0;
};

struct Strategy {
  const char* name;
  const char* attack;  // of the catalogue
  std::function<bool(const Situation&, SeededRandom&)> cheats;
  bool concedes = false;        // calls it a fault when it is caught
  bool returns = false;         // begins again under a new key
  bool changes = false;         // is sold when it is a veteran
  double friends = 0;           // share of the auditors who agree with whatever it says
  bool checks_blindly = false;  // returns guesses instead of checking
  bool flips_no_bits = false;
};

bool is_veteran(const Situation& s) { return s.level == Level::kVeteran; }

std::vector<Strategy> strategies() {
  const auto never = [](const Situation&, SeededRandom&) { return false; };
  const auto always = [](const Situation&, SeededRandom&) { return true; };
  const auto rarely = [](const Situation&, SeededRandom& r) { return chance(r) < 0.01; };
  const auto seldom = [](const Situation&, SeededRandom& r) { return chance(r) < 0.001; };
  const auto con = [](const Situation& s, SeededRandom&) { return is_veteran(s); };
  const auto last = [](const Situation& s, SeededRandom&) { return s.window >= kWindows - 20; };
  // As often as it can without being a newcomer again.
  const auto careful = [](const Situation& s, SeededRandom& r) {
    return s.level >= Level::kRegular && s.faults < 2 && chance(r) < 0.05;
  };
  const auto poor = [](const Situation& s, SeededRandom&) { return s.escrow < 40 * kPay; };
  return {
      {"honest", "-", never},
      {"honest, on perfect memory", "-", never, false, false, false, 0, false, true},
      {"always cheats", "A1 A2 A3 A5 A11", always},
      {"always cheats, comes back", "X1", always, false, true},
      {"cheats in 1 % of windows", "A6", rarely},
      {"cheats in 0.1 % of windows", "A6", seldom},
      {"a veteran's long con", "A9", con},
      {"a veteran's key, sold", "X2", con, false, false, true},
      {"cheats before it leaves", "A9", last},
      {"cheats while little is at stake", "A9 X1", poor, false, true},
      {"cheats and concedes", "A13 A19", careful, true},
      {"1 %, a third of auditors friends", "V4 X3", rarely, false, false, false, 0.33},
      {"con, a third of auditors friends", "V4 A9", con, false, false, false, 0.33},
      {"concedes, a third friends", "V4 A13", careful, true, false, false, 0.33},
      {"guesses instead of checking", "V1 V3 V6", never, false, true, false, 0, true},
  };
}

class Life {
 public:
  Life(const Strategy& strategy, std::uint64_t seed)
      : strategy_(strategy),
        random_(seed),
        drawer_(SecretKey::from_seed(blake2b(as_bytes(std::to_string(seed))).bytes).value()),
        standing_(kStart, false) {}

  // All that the node has spent less all that became its own, per window of the 90 days.
  double run() {
    for (std::int64_t i = 0; i < kWindows; ++i) {
      window_ = i;
      now_ = kStart + i * kWindowSeconds;
      if (i % kDrawWindows == 0) draw();
      if (standing_.is_tombstoned()) {
        if (!strategy_.returns) break;
        standing_ = Standing(now_, false);
        sold_ = false;
      }
      standing_.level(policy_, now_) == Level::kNewcomer ? check() : serve();
      if (i % 500 == 0) profit_ += standing_.vest(policy_, now_);
    }
    // It leaves, and comes for what is still in escrow when all of that is free.
    now_ = kStart + 90 * kDay + policy_.escrow_idle_seconds;
    profit_ += standing_.vest(policy_, now_);
    return static_cast<double>(profit_) / static_cast<double>(kPay * kWindows);
  }

 private:
  void draw() {
    const Checkpoint checkpoint = sign_checkpoint(static_cast<std::uint64_t>(window_) + 1,
                                                  blake2b(as_bytes("root")), drawer_);
    const VrfProof proof = vrf_prove(drawer_, draw_message(checkpoint));
    draw_ = Draw::open(checkpoint, drawer_.public_key(), proof);
  }

  // A newcomer checks canaries, a few an hour.
  void check() {
    if (window_ % 20 != 0) return;
    if (strategy_.checks_blindly) {
      profit_ += standing_.vest(policy_, now_);
      standing_.seize();  // a sealed guess never matches, and the referee sides with the worker
      return;
    }
    profit_ -= kCheckCost;
    standing_.check(policy_, kCheckPay, now_);
  }

  void serve() {
    const Level level = standing_.level(policy_, now_);
    if (strategy_.changes && level == Level::kVeteran && !sold_) {
      standing_.change(now_);
      sold_ = true;
    }
    const Situation situation{level, window_, standing_.faults(policy_, now_), caught_,
                              standing_.escrow()};
    const bool cheats = strategy_.cheats(situation, random_);
    const bool flips = !cheats && chance(random_) < kFaultRate && !strategy_.flips_no_bits;
    if (!cheats) profit_ -= kCost;
    standing_.serve(kPay, now_);
    const auto entry = static_cast<std::uint64_t>(window_);
    const bool friendly = chance(random_) < strategy_.friends;
    const bool audited = draw_->selects(entry, standing_.audit_rate(policy_, now_));
    const bool refereed = draw_->selects_referee(entry, policy_);
    const bool wrong = cheats || flips;
    const bool seen = wrong && ((audited && !friendly) || refereed);
    if (audited && !seen) standing_.was_right();
    if (!seen) return;
    ++caught_;
    if (flips || strategy_.concedes) {
      (void)standing_.fault(policy_, kPay, now_);
    } else {
      (void)standing_.seize();
    }
  }

  const Strategy& strategy_;
  const Policy policy_;
  SeededRandom random_;
  SecretKey drawer_;
  Standing standing_;
  std::optional<Draw> draw_;
  std::int64_t window_ = 0;
  std::int64_t now_ = kStart;
  std::int64_t profit_ = 0;
  std::int64_t caught_ = 0;
  bool sold_ = false;
};

struct Estimate {
  double mean = 0;
  double half = 0;  // of the 95 % interval
};

Estimate estimate(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  double squares = 0;
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return {sum / count, 1.96 * std::sqrt(squares / (count - 1) / count)};
}

// Each run of a strategy beside an honest one with the same seed, so that chance is shared.
int play(std::uint64_t seed, int runs) {
  std::printf("%d lives of %lld windows each, seed %llu; profit in parts of a window's pay\n\n",
              runs, static_cast<long long>(kWindows), static_cast<unsigned long long>(seed));
  std::printf("%-34s %-16s %9s %22s\n", "STRATEGY", "ATTACK", "PROFIT", "OVER HONESTY (95 %)");
  int failures = 0;
  double perfect = 0;
  std::vector<double> honest;  // the first that plays
  for (const Strategy& strategy : strategies()) {
    std::vector<double> profits;
    std::vector<double> over;
    for (int i = 0; i < runs; ++i) {
      const double profit = Life(strategy, seed + static_cast<std::uint64_t>(i)).run();
      profits.push_back(profit);
      if (honest.size() < profits.size()) honest.push_back(profit);
      over.push_back(profit - honest[static_cast<std::size_t>(i)]);
    }
    const Estimate profit = estimate(profits);
    const Estimate gain = estimate(over);
    const bool is_honest = strategy.attack[0] == '-';
    const bool loses = gain.mean + gain.half < 0;
    if (!is_honest && !loses) ++failures;
    if (strategy.flips_no_bits) perfect = profit.mean;
    std::printf("%-34s %-16s %9.5f %11.6f +- %.6f%s\n", strategy.name, strategy.attack, profit.mean,
                gain.mean, gain.half, is_honest || loses ? "" : "  DOES NOT LOSE");
  }
  const double loss = 1 - estimate(honest).mean / perfect;
  std::printf("\nan honest node loses %.4f %% of its profit to its own faults\n", 100 * loss);
  return failures + (loss < 0.001 ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  int runs = 40;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--runs") runs = std::max(2, std::atoi(argv[i + 1]));
  }
  return play(seed, runs) == 0 ? 0 : 1;
}
