// Which routes a request may use, by the API key that it carries. Socket thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "coordinator/http/errors.h"
#include "coordinator/http/head.h"
#include "coordinator/store.h"

namespace hearth::coordinator::http {

// What a route asks of a key. Without a store every route is open.
enum class Access : std::uint8_t {
  kLocal,  // nothing of this machine's own clients, any key of others: liveness
  kKey,    // any key
  kModel,  // a key whose models include the served one
  kAdmin,  // an admin key
};

// How often a key was used: as many requests at once as it may send in a minute, and from then on
// one whenever its share of a minute has passed.
class RequestRates {
 public:
  // 0: go on. Else the seconds, 1 to 60, after which there is room again.
  std::uint32_t take(const std::string& key_id, std::uint32_t requests_per_minute, TimePoint now);

 private:
  struct Bucket {
    double room = 0.0;
    TimePoint at{};
  };
  std::map<std::string, Bucket> buckets_;  // of the keys used in the last minute
};

class Authorization {
 public:
  // `store`: null, no keys are asked for.
  Authorization(std::shared_ptr<Store> store, const Clock& clock)
      : store_(std::move(store)), clock_(clock) {}

  struct Verdict {
    std::optional<ApiError> refusal;  // 401, 403, 429, or 503 when the store cannot be asked
    bool model_allowed = true;
    std::vector<std::string> trust = {};  // the key's
    std::string key_id = {};
  };
  // `local`: the connection comes from this machine's loopback.
  Verdict check(const RequestHead& head, Access access, std::string_view model, bool local);

 private:
  void log_refusal(const std::string& reason);
  ApiError unauthorized(const std::string& reason);

  const std::shared_ptr<Store> store_;
  const Clock& clock_;
  RequestRates rates_;
  std::optional<TimePoint> logged_;  // a refusal, at most one a second
};

}  // namespace hearth::coordinator::http
