// Authorization: which routes a request may use, by its API key. Socket thread only.
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
#include "coordinator/request.h"
#include "coordinator/store/store.h"

namespace hearth::coordinator::http {

// The key that a route needs; docs/security.md has the table. Without a store every route is open
// but those of kManage and kOwner.
enum class Access : std::uint8_t {
  kPage,    // no key: the web pages, which contain no data of a cluster
  kLocal,   // no key from this machine, any key from others: liveness
  kKey,     // any key
  kModel,   // a key whose models include a served one
  kState,   // an admin key, or a member that computes
  kAdmin,   // an admin key
  kManage,  // as kAdmin, even on loopback: members, join tokens and API keys
  kOwner,   // only the key in the file admin.key of the server's own folder, even on loopback
};

// A node of the roster that asks over its own link, without a key.
struct Member {
  PublicKey key;  // also its account
  std::string name;
  Role role = Role::kWorker;
};
// The owner under which a member's requests share the queue and keep their answers. It never equals
// the id of an API key.
std::string member_owner(const PublicKey& key);

// RequestRates: a token bucket for each key: a minute's requests at once, then one whenever its
// share of a minute has passed.
class RequestRates {
 public:
  // 0: the request is allowed. Else the seconds, 1 to 60, until the next one is.
  std::uint32_t take(const std::string& key_id, std::uint32_t requests_per_minute, TimePoint now);

 private:
  struct Bucket {
    double room = 0.0;
    TimePoint at{};
  };
  std::map<std::string, Bucket> buckets_;  // by key, of those used in the last minute
};

inline ApiError model_not_allowed(const std::string& model) {
  return ApiError::of(403,
                      "this API key may not use the model '" + model +
                          "'; create a key with hearth key create --models " + model,
                      "model_not_allowed", "permission_error");
}

class Authorization {
 public:
  // `store`: null, there are no keys. `own`: the account of this machine's users and of admins.
  // `open`: a request needs no key; with a key it may do what the key allows, and no more.
  // `owner_key`: the id of the key that Access::kOwner asks for; empty: no key has it.
  Authorization(std::shared_ptr<Store> store, const Clock& clock, const PublicKey& own = {},
                bool open = false, std::string owner_key = {})
      : store_(std::move(store)),
        clock_(clock),
        own_(own),
        open_(open),
        owner_key_(std::move(owner_key)) {}

  // Whether requests need a key; unauthenticated clients then learn nothing else.
  bool asks_keys() const { return store_ != nullptr && !open_; }

  struct Verdict {
    std::optional<ApiError> refusal;  // 401; with a valid key 403 or 429
    bool silent = false;  // the keys cannot be read now: the connection is closed without an answer
    bool unauthenticated() const { return silent || (refusal && refusal->status == 401); }
    std::vector<std::string> models = {};  // that the key may use; empty: all
    RequestPolicy policy = {};             // the key's; without a key, that of this machine's users
    bool manages = false;                  // Access::kManage would be granted
  };
  // `local`: the connection comes from this machine's loopback, and not through a proxy.
  // `member`: who holds the far end of the link; null without such a link. A key that the request
  // shows counts instead.
  // `served`: the names of the models.
  Verdict check(const RequestHead& head, Access access, const std::vector<std::string>& served,
                bool local, const Member* member = nullptr);
  // Logs the reason of a refusal, which the sender does not get; at most one line a second.
  void log_refusal(const std::string& reason);

 private:
  Verdict check_member(const Member& member, Access access);
  ApiError admin_needed(const std::string& reason);
  ApiError revoked_key(const ApiKey& key);
  ApiError unauthorized(const std::string& reason);
  ApiError owner_needed(const std::string& reason);

  const std::shared_ptr<Store> store_;
  const Clock& clock_;
  const PublicKey own_;
  const bool open_;
  const std::string owner_key_;
  RequestRates rates_;
  std::optional<TimePoint> logged_;  // the last refusal
};

}  // namespace hearth::coordinator::http
