// Honest members on real machines: run_honest() of lives.h.
#include <algorithm>

#include "lives.h"

namespace hearth::economy {
namespace {

using namespace hearth::ledger;

constexpr std::size_t kMembers = 40;
constexpr std::int64_t kSlotSeconds = 150;
constexpr std::int64_t kDrawSlots = 4;  // between two draws
constexpr std::int64_t kVestSlots = 200;
// Between a window and the end of its audit: the weights stay as they are for so long.
constexpr std::int64_t kAuditSlots = 2;

class HonestSwarm {
 public:
  HonestSwarm(const Faults& faults, std::uint64_t seed)
      : faults_(faults), swarm_(seed), random_(seed) {
    for (std::size_t i = 0; i < kMembers; ++i) all_.push_back(swarm_.join(true));
    stuck_.resize(kMembers);
  }

  HonestRun run(std::uint64_t windows);

 private:
  struct Pending {
    Window window;
    bool is_stuck = false;  // the weights were damaged when it was computed
    std::int64_t slot = 0;
  };

  bool flips() { return chance(random_) < faults_.rate; }
  void serve(std::size_t member, std::int64_t slot);
  void draw();
  void audit(const Pending& one);
  void judge(const Pending& one, std::size_t guilty, bool is_stuck);

  const Faults faults_;
  Swarm swarm_;
  SeededRandom random_;
  std::vector<std::size_t> all_;
  std::vector<bool> stuck_;
  std::vector<Pending> slot_;    // windows since the draw before
  std::vector<Pending> audits_;  // that are under way, in order
  double pay_ = 0;
  double lost_ = 0;
  HonestRun found_;
};

void HonestSwarm::serve(std::size_t member, std::int64_t slot) {
  const bool flipped = flips();
  if (flipped) {
    ++found_.flips;
    if (chance(random_) < faults_.stuck) stuck_[member] = true;
  }
  const bool wrong = flipped || stuck_[member];
  found_.wrong += wrong ? 1 : 0;
  ++found_.windows;
  const Window window = swarm_.serve(member, Size::kUsual, wrong);
  pay_ += static_cast<double>(window.pay);
  slot_.push_back({window, stuck_[member], slot});
}

// Who is accused hashes its weights and computes the window again. What it finds, it says: a bit
// that was flipped for a moment is right this time, a stuck one shows in the hash, and is reloaded.
void HonestSwarm::judge(const Pending& one, std::size_t guilty, bool is_stuck) {
  const bool whole = !is_stuck;
  const Judged judged{Plea::kConceded, whole, true, is_stuck};
  const std::int64_t before = swarm_.assets(guilty);
  swarm_.judge(one.window, guilty, verdict_of(judged));
  lost_ += static_cast<double>(before - swarm_.assets(guilty));
  stuck_[guilty] = false;
  if (swarm_.is_over(guilty)) {
    ++found_.convicted;
    return;
  }
  ++found_.faults;
  const Level level = swarm_.standing(guilty).level(swarm_.policy(), swarm_.now());
  if (level == Level::kNewcomer) ++found_.demoted;
}

void HonestSwarm::audit(const Pending& one) {
  const auto auditor = swarm_.auditor(one.window, all_);
  if (!auditor) return;
  const bool flipped = flips();
  found_.flips += flipped ? 1 : 0;
  const bool auditor_is_wrong = flipped || stuck_[*auditor];
  // Two wrong roots are never the same one.
  const Swarm::Audit said{*auditor, auditor_is_wrong ? Swarm::Says::kGuess : Swarm::Says::kTruth};
  if (!swarm_.audit(one.window, std::span(&said, 1))) return;
  if (one.window.wrong) {
    judge(one, one.window.worker, one.is_stuck);
  } else {
    judge(one, *auditor, stuck_[*auditor]);
  }
}

void HonestSwarm::draw() {
  const std::vector<std::uint64_t>& selected = swarm_.draw();
  for (const Pending& one : slot_) {
    if (std::ranges::binary_search(selected, one.window.entry)) audits_.push_back(one);
  }
  slot_.clear();
}

HonestRun HonestSwarm::run(std::uint64_t windows) {
  for (std::int64_t slot = 0; found_.windows < windows; ++slot) {
    swarm_.wait(kSlotSeconds);
    for (const std::size_t member : all_) {
      const Level level = swarm_.standing(member).level(swarm_.policy(), swarm_.now());
      if (!swarm_.is_over(member) && level != Level::kNewcomer) serve(member, slot);
    }
    if (slot_.empty()) break;  // all of them are newcomers again
    if (slot % kDrawSlots == 0) draw();
    while (!audits_.empty() && slot - audits_.front().slot >= kAuditSlots) {
      const Pending one = audits_.front();
      audits_.erase(audits_.begin());
      audit(one);
    }
    if (slot % kVestSlots != 0) continue;
    for (const std::size_t member : all_) swarm_.vest(member);
  }
  found_.lost = lost_ / pay_;
  return found_;
}

}  // namespace

HonestRun run_honest(std::uint64_t windows, const Faults& faults, std::uint64_t seed) {
  return HonestSwarm(faults, seed).run(windows);
}

}  // namespace hearth::economy
