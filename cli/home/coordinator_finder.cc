#include "cli/home/coordinator_finder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/limits.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kDialsInVain = 4;
constexpr auto kSearchEvery = std::chrono::minutes(1);

}  // namespace

// Outlives the finder: the process does not wait for a search when it ends.
struct CoordinatorFinder::Search {
  std::mutex mutex;
  bool runs = false;
  std::optional<std::chrono::steady_clock::time_point> began;
  std::vector<std::string> found;
};

CoordinatorFinder::CoordinatorFinder(CoordinatorFinderOptions options)
    : options_(std::move(options)),
      kept_(options_.addresses),
      addresses_(kept_),
      search_(std::make_shared<Search>()) {}

void CoordinatorFinder::put_first(const std::string& address) {
  std::erase(addresses_, address);
  addresses_.insert(addresses_.begin(), address);
  if (addresses_.size() > limits::kRosterAddresses) addresses_.resize(limits::kRosterAddresses);
}

void CoordinatorFinder::look() {
  if (const auto now = options_.reread(); !now.empty() && now != kept_) {
    kept_ = addresses_ = now;
    at_ = dials_ = 0;
  }
  const std::lock_guard lock(search_->mutex);
  for (const std::string& address : std::exchange(search_->found, {})) {
    if (std::find(addresses_.begin(), addresses_.end(), address) != addresses_.end()) continue;
    spdlog::info("found the coordinator on this network at {}", address);
    put_first(address);
    at_ = 0;
  }
  if (++dials_ <= kDialsInVain || search_->runs) return;
  const auto now = std::chrono::steady_clock::now();
  if (search_->began && now - *search_->began < kSearchEvery) return;
  spdlog::warn(
      "the coordinator does not answer at {}; searching this network for it. If its address has "
      "changed: hearth join ADDRESS:PORT",
      boost::algorithm::join(addresses_, ", "));
  search_->runs = true;
  search_->began = now;
  std::thread([search = search_, ask = options_.search, cluster = options_.cluster] {
    std::vector<std::string> found;
    for (const FoundCluster& each : ask()) {
      if (each.key == cluster && found.size() < limits::kRosterAddresses) {
        found.push_back(each.address);
      }
    }
    const std::lock_guard done(search->mutex);
    search->found = std::move(found);
    search->runs = false;
  }).detach();
}

std::string CoordinatorFinder::next() {
  look();
  last_ = addresses_[at_++ % addresses_.size()];
  return last_;
}

std::vector<std::string> CoordinatorFinder::all() {
  look();
  return addresses_;
}

void CoordinatorFinder::reached(const Roster& roster) {
  dials_ = 0;
  at_ = 0;
  for (const RosterEntry& entry : roster.entries) {
    if (entry.role != Role::kCoordinator) continue;
    for (auto each = entry.addresses.rbegin(); each != entry.addresses.rend(); ++each) {
      put_first(*each);
    }
  }
  // Keeps the address that led there from this machine, whatever address the coordinator states.
  if (!last_.empty()) put_first(last_);
  if (addresses_ == kept_) return;
  kept_ = addresses_;
  options_.keep(kept_);
}

}  // namespace hearth::cli
