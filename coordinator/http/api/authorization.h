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
#include "coordinator/http/api/head.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/store/store.h"

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
  // `store`: null, no key means anything. `own`: the account of this machine's users, and admins.
  // `open`: a request needs no key; one that shows one gets what the key may, and no more.
  Authorization(std::shared_ptr<Store> store, const Clock& clock, const PublicKey& own = {},
                bool open = false)
      : store_(std::move(store)), clock_(clock), own_(own), open_(open) {}

  // Whether a request needs a key, so that strangers may learn nothing but this.
  bool asks_keys() const { return store_ != nullptr && !open_; }

  struct Verdict {
    std::optional<ApiError> refusal;  // 401; of a valid key 403 or 429
    bool silent = false;  // the keys cannot be read now, so no answer would be true: a close
    bool stranger() const { return silent || (refusal && refusal->status == 401); }
    bool model_allowed = true;
    std::vector<std::string> trust = {};  // the key's
    std::string key_id = {};
    // Of a key: whose credit it spends, and the least that its requests get.
    std::optional<PublicKey> account = {};
    Verify verify = Verify::kNone;
    ledger::Level min_level = ledger::Level::kNewcomer;
  };
  // `local`: the connection comes from this machine's loopback.
  Verdict check(const RequestHead& head, Access access, std::string_view model, bool local);
  // Says in the log why a request was refused, of which its sender heard less; one line a second.
  void log_refusal(const std::string& reason);

 private:
  ApiError unauthorized(const std::string& reason);

  const std::shared_ptr<Store> store_;
  const Clock& clock_;
  const PublicKey own_;
  const bool open_;
  RequestRates rates_;
  std::optional<TimePoint> logged_;  // a refusal, at most one a second
};

}  // namespace hearth::coordinator::http
