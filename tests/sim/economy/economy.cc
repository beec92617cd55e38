// What cheating brings. Strategies of the attack catalogue work under the product's own ledger: its
// fold, draws, standings, verdicts and policy (ledger/). Prints what each is worth in parts of an
// honest window's pay, with its 95 % interval, and what honesty loses to machines that flip bits.
// Exits 1 when a cheat that has a defence does not lose, when honesty loses a thousandth of its
// pay, or when an honest member is convicted.
//
//   economy [--seed N] [--windows N] [--only TEXT] [--json]
//
// --windows: honest ones with faults, at each rate. --only: strategies whose name or attack has
// the text. GAIN is profit over honesty in the windows that a life worked: what a key that has
// ended would have earned later is not counted, so whitewashing is no cheaper than here. Prices do
// not react, a cheat saves its whole cost, and an audit comes in the slot of its window.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lives.h"

namespace {

using namespace hearth::economy;
using Json = nlohmann::ordered_json;

constexpr const char* kUsage =
    "usage: economy [--seed N] [--windows N] [--only TEXT] [--json]\n"
    "  --windows N   honest windows with faults, at each rate (1000000; 0: none)\n"
    "  --only TEXT   strategies whose name or attack has the text\n";
constexpr double kHonestLossMax = 0.001;  // of pay, at the realistic rate
constexpr double kRealistic = 1e-5;

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t windows = 1'000'000;
  std::string only;
  bool json = false;
};

struct Found {
  std::size_t lives = 0;
  double profit = 0;   // a window
  double gain = 0;     // a window
  double half = 0;     // of its 95 % interval
  double windows = 0;  // of all lives
  double caught = 0;   // share of the lives that cheated
  double until = 0;    // windows between the first cheat and the first verdict, where there was one
  double convicted = 0;  // share of lives
};

// Of a ratio of means: gain and windows of lives vary together.
Found summarise(const std::vector<Life>& lives) {
  Found found;
  found.lives = lives.size();
  const auto count = static_cast<double>(lives.size());
  double gain = 0;
  double cheated = 0;
  double caught = 0;
  for (const Life& life : lives) {
    gain += life.gain;
    found.profit += life.profit;
    found.windows += life.windows;
    found.convicted += life.convicted ? 1 / count : 0;
    cheated += life.first_cheat >= 0 ? 1 : 0;
    if (life.caught < 0) continue;
    caught += 1;
    found.until += life.caught;
  }
  const double windows = std::max(found.windows, 1.0);
  found.gain = gain / windows;
  found.profit /= windows;
  double squares = 0;
  for (const Life& life : lives) {
    squares += std::pow(life.gain - found.gain * life.windows, 2);
  }
  found.half = 1.96 * std::sqrt(squares / (count - 1) * count) / windows;
  found.caught = cheated > 0 ? caught / cheated : 0;
  found.until = caught > 0 ? found.until / caught : 0;
  return found;
}

Json to_json(const Strategy& strategy, const Found& found, bool loses) {
  Json json = {{"strategy", strategy.name},     {"attack", strategy.attack},
               {"friends", strategy.friends},   {"lives", found.lives},
               {"windows", found.windows},      {"profit_per_window", found.profit},
               {"gain_per_window", found.gain}, {"gain_half_interval", found.half},
               {"caught", found.caught},        {"windows_until_caught", found.until},
               {"convicted", found.convicted}};
  if (!strategy.attack.empty()) json["loses"] = loses;
  if (!strategy.undefended.empty()) json["undefended"] = strategy.undefended;
  return json;
}

void print_row(const Strategy& strategy, const Found& found, bool loses) {
  const bool honest = strategy.attack.empty();
  const char* verdict = honest || loses ? "" : "  DOES NOT LOSE";
  if (!loses && !strategy.undefended.empty()) verdict = "  no defence";
  std::printf("%-40s %-14s %4.0f %% %8.4f %9.4f +- %-7.4f %5.0f %% %7.1f%s\n",
              strategy.name.c_str(), honest ? "-" : strategy.attack.c_str(), 100 * strategy.friends,
              found.profit, found.gain, found.half, 100 * found.caught, found.until, verdict);
  std::fflush(stdout);
}

// False where there is no such option, or this is no value of it.
bool take(Options& options, const std::string& flag, const char* value) {
  if (flag == "--only") {
    options.only = value;
    return true;
  }
  std::uint64_t* const number = flag == "--seed"      ? &options.seed
                                : flag == "--windows" ? &options.windows
                                                      : nullptr;
  if (number == nullptr || *value == '\0') return false;
  char* end = nullptr;
  *number = std::strtoull(value, &end, 10);
  return *end == '\0';
}

bool is_asked(const Options& options, const Strategy& strategy) {
  return options.only.empty() || strategy.name.find(options.only) != std::string::npos ||
         strategy.attack.find(options.only) != std::string::npos;
}

// How many strategies break what must hold.
int play_all(const Options& options, Json& out) {
  std::map<std::pair<Start, std::uint64_t>, Swarm> begun;
  int failures = 0;
  if (!options.json) {
    std::printf("%-40s %-14s %6s %8s %20s %7s %8s\n", "STRATEGY", "ATTACK", "FRIENDS", "PROFIT",
                "GAIN (95 %)", "CAUGHT", "AFTER");
  }
  std::uint64_t number = 0;
  for (const Strategy& strategy : strategies()) {
    ++number;
    if (!is_asked(options, strategy)) continue;
    const auto at = std::pair{strategy.start, options.seed};
    if (!begun.contains(at)) begun.emplace(at, swarm_at(strategy.start, options.seed));
    std::vector<Life> lives;
    for (int i = 0; i < strategy.swarms; ++i) {
      const std::uint64_t seed = (options.seed * 1'000 + number) * 100 + static_cast<unsigned>(i);
      Swarm swarm = begun.at(at);
      swarm.stir(seed);
      for (Life& life : play(strategy, std::move(swarm), seed)) lives.push_back(life);
    }
    const Found found = summarise(lives);
    const double most = found.gain + found.half;
    const bool loses = most < 0 || (strategy.is_idle_else && most <= 0);
    const bool is_cheat = !strategy.attack.empty();
    if (is_cheat && !loses && strategy.undefended.empty()) ++failures;
    if (!is_cheat && found.convicted > 0) ++failures;
    if (options.json) {
      out["strategies"].push_back(to_json(strategy, found, loses));
    } else {
      print_row(strategy, found, loses);
    }
  }
  return failures;
}

int run_all_honest(const Options& options, Json& out) {
  int failures = 0;
  if (!options.json) {
    std::printf("\n%-10s %10s %8s %8s %8s %8s %10s %8s\n", "FAULT RATE", "WINDOWS", "FLIPS",
                "WRONG", "FAULTS", "DEMOTED", "CONVICTED", "LOST");
  }
  for (const double rate : {kRealistic, 10 * kRealistic, 100 * kRealistic}) {
    // What is worse than real shows as much in a tenth of the windows.
    const std::uint64_t windows = rate > kRealistic ? options.windows / 10 : options.windows;
    const HonestRun run = run_honest(windows, {rate, 0.5}, options.seed);
    if (run.convicted > 0 || (rate <= kRealistic && run.lost >= kHonestLossMax)) ++failures;
    if (options.json) {
      out["honest"].push_back({{"fault_rate", rate},
                               {"windows", run.windows},
                               {"flips", run.flips},
                               {"wrong_windows", run.wrong},
                               {"faults", run.faults},
                               {"demoted", run.demoted},
                               {"convicted", run.convicted},
                               {"lost_of_pay", run.lost}});
      continue;
    }
    std::printf(
        "%-10g %10llu %8llu %8llu %8llu %8llu %10llu %6.4f %%\n", rate,
        static_cast<unsigned long long>(run.windows), static_cast<unsigned long long>(run.flips),
        static_cast<unsigned long long>(run.wrong), static_cast<unsigned long long>(run.faults),
        static_cast<unsigned long long>(run.demoted),
        static_cast<unsigned long long>(run.convicted), 100 * run.lost);
    std::fflush(stdout);
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (flag == "--json") {
      options.json = true;
      continue;
    }
    const char* const value = i + 1 < argc ? argv[++i] : nullptr;
    if (value == nullptr || !take(options, flag, value)) {
      std::fprintf(stderr, "economy: %s\n%s", flag.c_str(), kUsage);
      return 2;
    }
  }
  Json out = {{"seed", options.seed},
              {"policy", hearth::ledger::policy_hash(hearth::ledger::Policy()).hex()}};
  int failures = play_all(options, out);
  if (options.windows > 0) failures += run_all_honest(options, out);
  if (options.json) std::printf("%s\n", out.dump().c_str());
  return failures == 0 ? 0 : 1;
}
