#include "lives.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace hearth::economy {
namespace {

using namespace hearth::ledger;

constexpr std::size_t kPeers = 4;        // honest workers whose windows are checked
constexpr std::int64_t kCheckSlots = 4;  // between two windows that a newcomer checks
constexpr std::int64_t kDrawSlots = 4;   // between two draws
constexpr std::int64_t kVestSlots = 100;
constexpr std::uint64_t kLargeOneIn = 50;

// The members of swarm_at(), by their numbers.
constexpr std::size_t kFirstPeer = kAuditors;
constexpr std::size_t kReferee = kFirstPeer + kPeers;
constexpr std::size_t kFirstLife = kReferee + 1;

std::vector<std::size_t> numbers(std::size_t first, std::size_t count) {
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + i;
  return all;
}

// One member's life.
struct Node {
  std::size_t member = 0;
  SeededRandom random;
  Life life;
  double cost = 0;
  double honest = 0;   // what honesty would have left of the same work
  double friends = 0;  // what friends earned and saved by it
  double before = 0;   // its assets
  double kept = 0;     // under keys that have ended
  std::int64_t caught = 0;
  bool is_over = false;
  bool is_refused = false;  // it is given no work any more
};

class Lives {
 public:
  Lives(const Strategy& strategy, Swarm swarm, std::uint64_t seed)
      : strategy_(strategy),
        swarm_(std::move(swarm)),
        auditors_(numbers(0, kAuditors)),
        friends_(static_cast<std::size_t>(std::lround(strategy.friends * kAuditors))) {
    for (std::size_t i = 0; i < kLives; ++i) {
      nodes_.push_back({kFirstLife + i, SeededRandom(seed * kLives + i), {}});
    }
  }

  std::vector<Life> run();

 private:
  void prepare();
  void step(std::int64_t slot);
  void serve(std::size_t index, std::int64_t slot);
  void check(Node& node);
  bool is_told(Node& node) const;
  void sit_out(Node& node);
  void flood();
  void draw();
  void audit(std::size_t index, const Window& window);
  void judge(Node& node, const Window& window);
  void settle();
  // As much of others' as regulars have audited of their own.
  double checks_a_window() const {
    return static_cast<double>(swarm_.policy().regular_rate_floor) / kMillion;
  }
  double unit() const { return static_cast<double>(swarm_.price(Size::kUsual)); }

  const Strategy& strategy_;
  Swarm swarm_;
  const std::vector<std::size_t> auditors_;
  const std::size_t friends_;
  std::vector<Node> nodes_;
  using Slot = std::vector<std::optional<Window>>;  // by node
  std::vector<Slot> slots_;                         // since the draw before; the last is this one
};

void Lives::prepare() {
  if (strategy_.idle_seconds > 0) {
    swarm_.wait(strategy_.idle_seconds);
    for (const Node& node : nodes_) swarm_.vest(node.member);
  }
  for (Node& node : nodes_) {
    if (strategy_.is_sold) swarm_.change(node.member);
    if (strategy_.work == Work::kWashes) {
      swarm_.grant(node.member, 2 * strategy_.windows * swarm_.price(Size::kUsual));
    }
    node.before = static_cast<double>(swarm_.assets(node.member));
    if (!strategy_.equivocates) continue;
    swarm_.equivocate(node.member);
    node.life.windows = 1;
    node.life.first_cheat = 0;
    node.life.caught = 1;
  }
}

void Lives::serve(std::size_t index, std::int64_t slot) {
  Node& node = nodes_[index];
  const Standing& standing = swarm_.standing(node.member);
  const bool large = strategy_.is_mixed && node.random.next() % kLargeOneIn == 0;
  Size size = large ? Size::kLarge : Size::kUsual;
  if (strategy_.is_prompts) size = Size::kPrompt;
  Situation now;
  now.level = standing.level(swarm_.policy(), swarm_.now());
  now.served = static_cast<std::int64_t>(node.life.windows);
  now.left = strategy_.windows - slot;
  now.faults = standing.faults(swarm_.policy(), swarm_.now());
  now.caught = node.caught;
  now.stake = static_cast<double>(standing.escrow()) / unit();
  now.size = size;
  bool wrong = strategy_.cheats && strategy_.cheats(now, node.random);
  Slot& now_served = slots_.back();
  const bool is_behind = strategy_.in_pairs && index % 2 == 1 && now_served[index - 1];
  if (is_behind) wrong = now_served[index - 1]->wrong;
  const bool washes = strategy_.work == Work::kWashes;
  const auto payer = washes ? std::optional(node.member) : std::nullopt;
  const Window window = is_behind ? swarm_.serve_behind(*now_served[index - 1], node.member, wrong)
                                  : swarm_.serve(node.member, size, wrong, payer);
  now_served[index] = window;
  const double cost = strategy_.is_free ? 0 : kCost * static_cast<double>(window.pay);
  if (!wrong) node.cost += cost;
  if (!washes) node.honest += static_cast<double>(window.pay) - cost;
  if (wrong && node.life.first_cheat < 0) node.life.first_cheat = node.life.windows;
  node.life.windows += 1;
}

// A window of a peer's: of the swarm's own traffic, where a newcomer checks it.
void Lives::check(Node& node) {
  const std::size_t peer = kFirstPeer + node.random.next() % kPeers;
  const Window window = swarm_.serve(peer, Size::kUsual, false);
  const double cost = kCost * static_cast<double>(window.pay);
  const bool told = strategy_.leak != Leak::kNone && is_told(node);
  Swarm::Says says = strategy_.says;
  if (strategy_.leak != Leak::kNone) says = told ? Swarm::Says::kClaim : Swarm::Says::kTruth;
  if (says == Swarm::Says::kTruth) node.cost += cost;
  if (!strategy_.is_idle_else) {
    node.honest += static_cast<double>(swarm_.check_price(Size::kUsual)) - cost;
  }
  if (says != Swarm::Says::kTruth && node.life.first_cheat < 0) {
    node.life.first_cheat = node.life.windows;
  }
  if (strategy_.work != Work::kBoth) node.life.windows += 1;
  // What it claims is no audit, and the window has another auditor.
  if (told && strategy_.leak == Leak::kLog) {
    node.is_refused = true;
    node.life.caught = node.life.windows - node.life.first_cheat;
  }
  if (told && (strategy_.leak == Leak::kLog || strategy_.leak == Leak::kAudit)) return;
  const Swarm::Audit audit{node.member, says};
  if (swarm_.audit(window, std::span(&audit, 1))) judge(node, window);
}

bool Lives::is_told(Node& node) const {
  const double strangers = 1 - strategy_.friends;
  switch (strategy_.leak) {
    case Leak::kNone: return false;
    case Leak::kLog:
    case Leak::kAudit: return true;
    case Leak::kClient: return chance(node.random) >= strangers;
    case Leak::kAccomplice: return chance(node.random) >= strangers * strangers;
  }
  return false;
}

// What honesty would go on to earn: its key is no worse for the ledger, so a new one is no way out.
void Lives::sit_out(Node& node) {
  node.life.windows += 1;
  node.honest += (1 - kCost) * unit();
  if (chance(node.random) >= checks_a_window()) return;
  node.honest += static_cast<double>(swarm_.check_price(Size::kUsual)) - kCost * unit();
}

// Its client orders of others, whose windows are drawn as its own are.
void Lives::flood() {
  for (std::int64_t i = 0; i < strategy_.flood; ++i) {
    Node& client = nodes_[static_cast<std::size_t>(i) % kLives];
    if (client.is_over) continue;
    const auto peer = kFirstPeer + static_cast<std::size_t>(i) % kPeers;
    const Window window = swarm_.serve(peer, Size::kUsual, false);
    const double fee = static_cast<double>(swarm_.policy().price_fee) / kMillion;
    client.cost += static_cast<double>(window.pay) * (1 + fee);
  }
}

void Lives::judge(Node& node, const Window& window) {
  const bool concedes = strategy_.plea == Plea::kConceded;
  const Judged judged{strategy_.plea, !concedes, true, strategy_.same_again};
  swarm_.judge(window, node.member, verdict_of(judged));
  ++node.caught;
  if (node.life.caught < 0) node.life.caught = node.life.windows - node.life.first_cheat;
}

void Lives::audit(std::size_t index, const Window& window) {
  std::vector<Swarm::Audit> audits;
  const auto auditor = swarm_.auditor(window, auditors_);
  if (auditor) {
    const bool is_friend = *auditor < friends_;
    audits.push_back({*auditor, is_friend ? Swarm::Says::kClaim : Swarm::Says::kTruth});
    // What a friend does not compute of a wrong window it saves; of a wash, its pay is for nothing.
    // That friends need not check each other's right windows is no gain of the cheat.
    const Size size = strategy_.is_prompts ? Size::kPrompt : Size::kUsual;
    const auto check_pay = static_cast<double>(swarm_.check_price(size));
    const bool washes = strategy_.work == Work::kWashes;
    if (is_friend && (washes || window.wrong)) {
      nodes_[index].friends += washes ? check_pay : kCost * static_cast<double>(window.pay);
    }
  }
  if (strategy_.has_referee && swarm_.referee_draws(window.entry)) {
    audits.push_back({kReferee, Swarm::Says::kTruth});
  }
  if (!audits.empty() && swarm_.audit(window, audits)) judge(nodes_[index], window);
}

void Lives::step(std::int64_t slot) {
  swarm_.wait(strategy_.slot_seconds);
  slots_.emplace_back(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.is_over) continue;
    if (node.is_refused) {
      sit_out(node);
      continue;
    }
    if (swarm_.is_over(node.member)) {
      node.life.convicted = true;
      node.is_over = !strategy_.returns;
      if (node.is_over) continue;
      node.kept += static_cast<double>(swarm_.spendable(node.member));
      node.member = swarm_.join(false);
    }
    const bool partner_is_gone = strategy_.in_pairs && i % 2 == 1 && nodes_[i - 1].is_over;
    if (partner_is_gone) {
      node.is_over = true;
      continue;
    }
    const Level level = swarm_.standing(node.member).level(swarm_.policy(), swarm_.now());
    const bool dues = level == Level::kNewcomer;
    if (strategy_.work == Work::kChecks) {
      check(node);
    } else if (!dues) {
      serve(i, slot);
      const bool checks = strategy_.work == Work::kBoth && chance(node.random) < checks_a_window();
      if (checks) check(node);
    } else if (slot % kCheckSlots == 0) {
      check(node);
    }
  }
  flood();
  if (slot % kDrawSlots == 0 || strategy_.slot_seconds > 900) draw();
  if (slot % kVestSlots != 0) return;
  for (const Node& node : nodes_) swarm_.vest(node.member);
}

void Lives::draw() {
  const std::vector<std::uint64_t> selected = swarm_.draw();
  const auto is_drawn = [&](const std::optional<Window>& one) {
    return one && (std::ranges::binary_search(selected, one->entry) ||
                   (strategy_.has_referee && swarm_.referee_draws(one->entry)));
  };
  for (const Slot& slot : slots_) {
    for (std::size_t i = 0; i < slot.size(); ++i) {
      if (!slot[i] || swarm_.is_over(nodes_[i].member)) continue;
      const bool upper = strategy_.in_pairs && i % 2 == 0;
      const bool lower = strategy_.in_pairs && i % 2 == 1;
      // The first of two stages that differ is named, whichever of them was drawn.
      if (lower && slot[i]->wrong) continue;
      if (is_drawn(slot[i]) || (upper && is_drawn(slot[i + 1]))) audit(i, *slot[i]);
    }
  }
  slots_.clear();
}

// It leaves, and comes for what is still in escrow when that is free.
void Lives::settle() {
  swarm_.wait(swarm_.policy().escrow_idle_seconds + kDay);
  for (Node& node : nodes_) {
    swarm_.vest(node.member);
    node.life.convicted = node.life.convicted || swarm_.is_over(node.member);
    const double assets = static_cast<double>(swarm_.spendable(node.member)) + node.kept;
    const double profit = assets - node.before - node.cost + node.friends;
    node.life.profit = profit / unit();
    node.life.gain = (profit - node.honest) / unit();
  }
}

std::vector<Life> Lives::run() {
  prepare();
  for (std::int64_t slot = 0; slot < strategy_.windows; ++slot) {
    step(slot);
    const bool all_over =
        std::ranges::all_of(nodes_, [](const Node& node) { return node.is_over; });
    if (all_over) break;
  }
  draw();
  settle();
  std::vector<Life> lives;
  const std::size_t together = strategy_.in_pairs ? 2 : 1;
  for (std::size_t i = 0; i < nodes_.size(); i += together) {
    Life life = nodes_[i].life;
    if (strategy_.in_pairs) {
      life.gain += nodes_[i + 1].life.gain;
      life.profit += nodes_[i + 1].life.profit;
      life.windows += nodes_[i + 1].life.windows;
    }
    lives.push_back(life);
  }
  return lives;
}

// So many windows of each, all audited.
void earn_standing(Swarm& swarm, std::int64_t windows, std::int64_t slot_seconds) {
  for (std::int64_t i = 0; i < windows; ++i) {
    swarm.wait(slot_seconds);
    for (std::size_t k = 0; k < kLives; ++k) {
      const Window window = swarm.serve(kFirstLife + k, Size::kUsual, false);
      const Swarm::Audit audit{(k + static_cast<std::size_t>(i)) % kAuditors, Swarm::Says::kTruth};
      (void)swarm.audit(window, std::span(&audit, 1));
    }
    if (i % kVestSlots != 0) continue;
    for (std::size_t k = 0; k < kLives; ++k) swarm.vest(kFirstLife + k);
  }
}

}  // namespace

Swarm swarm_at(Start start, std::uint64_t seed) {
  Swarm swarm(seed);
  for (std::size_t i = 0; i < kFirstLife; ++i) (void)swarm.join(true);
  for (std::size_t i = 0; i < kLives; ++i) (void)swarm.join(start != Start::kNewcomer);
  if (start == Start::kRegular) earn_standing(swarm, 600, 600);
  if (start == Start::kVeteran) earn_standing(swarm, 2'100, 2'520);
  (void)swarm.draw();
  return swarm;
}

std::vector<Life> play(const Strategy& strategy, Swarm swarm, std::uint64_t seed) {
  return Lives(strategy, std::move(swarm), seed).run();
}

}  // namespace hearth::economy
