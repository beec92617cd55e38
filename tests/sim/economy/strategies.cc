#include "strategies.h"

namespace hearth::economy {
namespace {

using ledger::Level;
using ledger::Plea;

constexpr double kThird = 1.0 / 3;
constexpr std::int64_t kSlowSlot = 1'200;

Choice at_rate(double share) {
  return [share](const Situation&, SeededRandom& random) { return chance(random) < share; };
}
bool always(const Situation& /*now*/, SeededRandom& /*random*/) { return true; }
bool when_large(const Situation& now, SeededRandom& /*random*/) { return now.size == Size::kLarge; }
bool when_regular(const Situation& now, SeededRandom& /*random*/) {
  return now.level >= Level::kRegular;
}
bool when_last(const Situation& now, SeededRandom& /*random*/) { return now.left <= 20; }
bool when_poor(const Situation& now, SeededRandom& /*random*/) { return now.stake < 40; }
// As often as a fault is forgiven: never a third one in the time for which they count.
bool when_forgiven(const Situation& now, SeededRandom& /*random*/) {
  return now.level >= Level::kRegular && now.faults < 2;
}
bool when_first(const Situation& now, SeededRandom& /*random*/) { return now.caught == 0; }

Strategy of(std::string name, std::string attack, Start start, Choice cheats) {
  Strategy one;
  one.name = std::move(name);
  one.attack = std::move(attack);
  one.start = start;
  one.cheats = std::move(cheats);
  return one;
}

void add_honest(std::vector<Strategy>& all) {
  all.push_back(of("honest, a regular", "", Start::kRegular, nullptr));
  all.push_back(of("honest, a veteran", "", Start::kVeteran, nullptr));
  all.push_back(of("honest, from probation on", "", Start::kProbation, nullptr));
  Strategy newcomer = of("honest, from newcomer on", "", Start::kNewcomer, nullptr);
  newcomer.slot_seconds = kSlowSlot;
  all.push_back(newcomer);
  Strategy mixed = of("honest, long answers among short", "", Start::kVeteran, nullptr);
  mixed.is_mixed = true;
  all.push_back(mixed);
}

// Caught, they say that they were right.
void add_contested(std::vector<Strategy>& all) {
  for (const auto& [start, who] :
       {std::pair{Start::kProbation, "on probation"}, std::pair{Start::kRegular, "a regular"},
        std::pair{Start::kVeteran, "a veteran (long con)"}}) {
    const std::string attack = start == Start::kVeteran ? "A9" : "A1 A2 A3 A11";
    all.push_back(of(std::string("always, ") + who, attack, start, always));
    Strategy third = of(std::string("always, ") + who, attack + " V4", start, always);
    third.friends = kThird;
    third.swarms = start == Start::kProbation ? 6 : 1;  // it is over in a few windows
    all.push_back(third);
  }
  for (const double share : {0.5, 0.1, 0.01, 0.002}) {
    Strategy some = of("in a share of " + std::to_string(share).substr(0, 5), "A6", Start::kRegular,
                       at_rate(share));
    some.swarms = share < 0.005 ? 4 : 1;
    all.push_back(some);
  }
  for (const double friends : {0.1, 0.2, kThird}) {
    Strategy some = of("in a share of 0.01", "A6 V4", Start::kVeteran, at_rate(0.01));
    some.friends = friends;
    some.swarms = 2;
    all.push_back(some);
  }
  Strategy large = of("on long answers only", "A10", Start::kVeteran, when_large);
  large.is_mixed = true;
  large.swarms = 2;
  all.push_back(large);
  large.friends = kThird;
  all.push_back(large);
  Strategy promoted = of("as soon as it is a regular", "A9", Start::kProbation, when_regular);
  promoted.friends = kThird;
  all.push_back(promoted);
  Strategy leaving = of("its last 20 windows", "A9", Start::kVeteran, when_last);
  leaving.windows = 60;
  leaving.friends = kThird;
  leaving.swarms = 4;
  all.push_back(leaving);
  Strategy sold = of("a veteran's key, sold", "X2", Start::kVeteran, always);
  sold.is_sold = true;
  all.push_back(sold);
  Strategy flood = of("in a share of 0.1, and floods", "U5", Start::kRegular, at_rate(0.1));
  flood.flood = 40;
  flood.windows = 600;
  all.push_back(flood);
  Strategy pairs = of("two neighbours skip", "X3", Start::kVeteran, always);
  pairs.in_pairs = true;
  pairs.friends = kThird;
  all.push_back(pairs);
  Strategy twice = of("signs two receipts of a slot", "A17", Start::kRegular, nullptr);
  twice.equivocates = true;
  twice.windows = 50;
  all.push_back(twice);
}

// Caught, they say that it was a fault, or nothing; computed again, it is right.
void add_conceded(std::vector<Strategy>& all) {
  const auto conceded = [&](Strategy one) {
    one.plea = Plea::kConceded;
    all.push_back(one);
    for (const double friends : {0.1, 0.2, kThird}) {
      one.friends = friends;
      if (friends == kThird || one.start == Start::kVeteran) all.push_back(one);
    }
  };
  conceded(of("always, concedes", "A13 A19", Start::kRegular, always));
  conceded(of("while forgiven, concedes", "A13 A14", Start::kVeteran, when_forgiven));
  Strategy once = of("until first caught, concedes", "A13", Start::kVeteran, when_first);
  once.windows = 400;
  once.swarms = 4;
  conceded(once);
  Strategy rare = of("in a share of 0.05, concedes", "A13", Start::kVeteran, at_rate(0.05));
  rare.swarms = 2;
  conceded(rare);
  Strategy idle = once;
  idle.name = "back from a pause, concedes";
  idle.attack = "A9 A13";
  idle.windows = 150;
  idle.swarms = 12;
  idle.idle_seconds = 31 * kDay;
  conceded(idle);
  Strategy slow = idle;
  slow.name = "one window a day, concedes";
  slow.slot_seconds = kDay;
  conceded(slow);
  Strategy large = of("on long answers only, concedes", "A10 A13", Start::kVeteran, when_large);
  large.is_mixed = true;
  large.swarms = 2;
  conceded(large);
  Strategy pairs = once;
  pairs.name = "two neighbours, concede";
  pairs.plea = Plea::kConceded;
  pairs.attack = "X3 A13";
  pairs.in_pairs = true;
  pairs.swarms = 24;
  pairs.friends = kThird;
  all.push_back(pairs);
  Strategy silent = of("always, other noise each time, silent", "A5 A15", Start::kVeteran, always);
  silent.plea = Plea::kNone;
  silent.same_again = false;
  silent.friends = kThird;
  all.push_back(silent);
}

void add_whitewash(std::vector<Strategy>& all) {
  Strategy cheat = of("always, and comes back", "X1", Start::kProbation, always);
  cheat.returns = true;
  cheat.slot_seconds = kSlowSlot;
  cheat.friends = kThird;
  all.push_back(cheat);
  Strategy con = of("as a regular, and comes back", "X1 A9", Start::kRegular, when_regular);
  con.returns = true;
  con.slot_seconds = kSlowSlot;
  con.friends = kThird;
  all.push_back(con);
  Strategy poor = of("while little is at stake", "X1 A9", Start::kProbation, when_poor);
  poor.returns = true;
  poor.slot_seconds = kSlowSlot;
  poor.friends = kThird;
  all.push_back(poor);
}

void add_auditors(std::vector<Strategy>& all) {
  Strategy honest = of("honest, checks only", "", Start::kRegular, nullptr);
  honest.work = Work::kChecks;
  honest.windows = 100;
  all.push_back(honest);
  Strategy lazy = honest;
  lazy.name = "guesses instead of checking";
  lazy.attack = "V1 V5";
  lazy.says = Swarm::Says::kGuess;
  lazy.plea = Plea::kConceded;
  all.push_back(lazy);
  lazy.name = "always says that it was wrong";
  lazy.attack = "V3";
  lazy.plea = Plea::kContested;
  all.push_back(lazy);
  Strategy sybil = lazy;
  sybil.name = "newcomers that guess";
  sybil.attack = "V6";
  sybil.start = Start::kNewcomer;
  sybil.plea = Plea::kConceded;
  sybil.is_idle_else = true;
  all.push_back(sybil);
}

// What others know of a window spares its auditor the work (ledger/PROTOCOL.md, 4). All of these
// windows are right: a friend who agrees with wrong ones is in `friends` of the others.
void add_leaks(std::vector<Strategy>& all) {
  Strategy both = of("honest, serves and checks", "", Start::kRegular, nullptr);
  both.work = Work::kBoth;
  all.push_back(both);
  both.attack = "V2";
  both.name = "checks by the log";
  both.leak = Leak::kLog;
  all.push_back(both);
  both.name = "checks by a client's tokens, last stage";
  both.leak = Leak::kClient;
  both.undefended = "it is a friend who agrees, and what it agrees to is right";
  both.friends = kThird;
  all.push_back(both);
  both.name = "checks by an accomplice's rows";
  both.leak = Leak::kAccomplice;
  all.push_back(both);
  both.name = "spoils all that it knows for audits";
  both.attack = "V5";
  both.leak = Leak::kAudit;
  both.friends = 0;
  both.undefended = "it agrees with nothing; the ledger cannot tell which of two spoilt an audit";
  all.push_back(both);
}

void add_wash(std::vector<Strategy>& all) {
  for (const auto& [start, who] :
       {std::pair{Start::kRegular, "a regular"}, std::pair{Start::kProbation, "on probation"}}) {
    Strategy wash = of(std::string("buys of itself, ") + who, "U2", start, nullptr);
    wash.work = Work::kWashes;
    wash.friends = kThird;
    wash.windows = 300;
    all.push_back(wash);
    wash.name += ", at no cost";
    wash.is_free = true;
    all.push_back(wash);
    wash.name = std::string("cached prompts of its own, ") + who;
    wash.is_prompts = true;
    all.push_back(wash);
  }
}

void add_majority(std::vector<Strategy>& all) {
  Strategy majority = of("all auditors are friends", "X4", Start::kVeteran, always);
  majority.friends = 1;
  majority.has_referee = true;
  all.push_back(majority);
  majority.name = "all are friends, concedes";
  majority.plea = Plea::kConceded;
  majority.undefended = "the referee sees one window of 200; three faults end it for a while";
  all.push_back(majority);
}

}  // namespace

double chance(SeededRandom& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

std::vector<Strategy> strategies() {
  std::vector<Strategy> all;
  add_honest(all);
  add_contested(all);
  add_conceded(all);
  add_whitewash(all);
  add_auditors(all);
  add_leaks(all);
  add_wash(all);
  add_majority(all);
  return all;
}

}  // namespace hearth::economy
