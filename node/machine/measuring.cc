#include "node/machine/measuring.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace hearth::node {

Measuring::Measuring(Measure measure, Post post)
    : measure_(std::move(measure)), post_(std::move(post)) {}

Measuring::~Measuring() {
  cancelled_ = true;
  if (thread_.joinable()) thread_.join();
}

void Measuring::ask(Done done) {
  if (measured_) return done(*measured_);
  done_ = std::move(done);
  begin();
}

void Measuring::set_away(bool away) {
  if (away_ == away) return;
  away_ = away;
  if (away_) {
    cancelled_ = true;
  } else {
    begin();
  }
}

void Measuring::begin() {
  if (works_ || away_ || !done_) return;
  if (thread_.joinable()) thread_.join();
  works_ = true;
  cancelled_ = false;
  thread_ = std::thread([this] {
    auto measured = measure_([this] { return cancelled_.load(); });
    post_([this, measured = std::move(measured)] { end(measured); });
  });
}

void Measuring::end(Result<Measured> measured) {
  works_ = false;
  if (!measured.ok() && measured.error().code == ErrorCode::kCancelled) return begin();
  const Done done = std::exchange(done_, nullptr);
  if (!measured.ok()) {
    spdlog::error("this machine gets no layers, because its speed could not be measured: {}",
                  measured.error().message);
    return;
  }
  measured_ = *measured;
  const StageRate& rate = measured_->rate;
  spdlog::info("a layer takes {:.3f} ms, of {} rows {:.3f} ms", rate.layer.one * 1e3, kRateRows,
               rate.layer.batch * 1e3);
  if (done) done(*measured_);
}

}  // namespace hearth::node
