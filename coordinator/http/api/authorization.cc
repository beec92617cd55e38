#include "coordinator/http/api/authorization.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/membership/credentials.h"

namespace hearth::coordinator::http {
namespace {

constexpr double kMinute = 60.0;

ApiError error_of(unsigned status, std::string type, std::string code, std::string message) {
  ApiError error = ApiError::invalid(std::move(message), std::nullopt, std::move(code));
  error.status = status;
  error.type = std::move(type);
  return error;
}

// The token of "Bearer TOKEN"; the scheme in any case (RFC 9110, 11.1). Empty: another scheme.
std::string_view bearer_token(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size()) return {};
  const bool bearer = std::equal(kScheme.begin(), kScheme.end(), value.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
  });
  if (!bearer) return {};
  value.remove_prefix(kScheme.size());
  const std::size_t begin = std::min(value.find_first_not_of(' '), value.size());
  return value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

std::uint32_t RequestRates::take(const std::string& key_id, std::uint32_t requests_per_minute,
                                 TimePoint now) {
  if (requests_per_minute == 0) return 0;
  // A bucket that was not used for a minute is full again, like a new one.
  if (buckets_.size() >= limits::kApiKeyBuckets) {
    std::erase_if(buckets_, [&](const auto& each) {
      return now - each.second.at >= std::chrono::minutes(1);
    });
  }
  const double capacity = requests_per_minute;
  const auto [found, fresh] = buckets_.try_emplace(key_id, Bucket{capacity, now});
  Bucket& bucket = found->second;
  const double minutes = std::chrono::duration<double>(now - bucket.at).count() / kMinute;
  bucket.room = std::min(capacity, bucket.room + minutes * capacity);
  bucket.at = now;
  if (bucket.room >= 1.0) {
    bucket.room -= 1.0;
    return 0;
  }
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil((1.0 - bucket.room) * kMinute / capacity), 1.0, kMinute));
}

void Authorization::log_refusal(const std::string& reason) {
  const TimePoint now = clock_.now();
  if (logged_ && now - *logged_ < std::chrono::seconds(1)) return;
  spdlog::warn("API: a request was refused: {}", reason);
  logged_ = now;
}

ApiError Authorization::unauthorized(const std::string& reason) {
  log_refusal(reason);
  return error_of(401, "authentication_error", "invalid_api_key",
                  "this API needs a valid key in the header Authorization: Bearer hk1...; the "
                  "server's owner creates keys with hearth key create");
}

Authorization::Verdict Authorization::check(const RequestHead& head, Access access,
                                            std::string_view model, bool local) {
  if (!store_ || (access == Access::kLocal && local)) return {};
  // Clients that must send some key send a placeholder, which is ignored; anything that contains a
  // key of ours is checked.
  if (open_ && head.authorizations <= 1 && !has_key(head.authorization)) return {};
  if (head.authorizations != 1) {
    return {unauthorized(head.authorizations == 0 ? "no Authorization header"
                                                  : "two Authorization headers")};
  }
  const auto key = check_key(*store_, bearer_token(head.authorization));
  if (!key.ok()) {
    if (key.error().code == ErrorCode::kRefused) return {unauthorized(key.error().message)};
    spdlog::error("API: {}", key.error().message);
    return {std::nullopt, true};
  }
  if (const std::uint32_t wait = rates_.take(key->id, key->requests_per_minute, clock_.now())) {
    ApiError error =
        error_of(429, "rate_limit_error", "rate_limit_exceeded",
                 "this key may send " + std::to_string(key->requests_per_minute) +
                     " requests a minute; try again in " + std::to_string(wait) + " s");
    error.retry_after = wait;
    return {std::move(error)};
  }
  if (access == Access::kAdmin && !key->admin) {
    log_refusal("key " + key->id + " is not an admin key");
    return {error_of(403, "permission_error", "admin_key_needed",
                     "this route needs an admin key (hearth key create --admin)")};
  }
  Verdict verdict;
  verdict.model_allowed = key->models.empty() || std::find(key->models.begin(), key->models.end(),
                                                           model) != key->models.end();
  verdict.policy.trust = key->trust;
  verdict.policy.owner = key->id;
  verdict.policy.account = account_of(*key, store_->secret_key(), own_);
  verdict.policy.verify = key->verify;
  verdict.policy.min_level = key->min_level;
  if (access == Access::kModel && !verdict.model_allowed) {
    verdict.refusal = error_of(403, "permission_error", "model_not_allowed",
                               "this key may not use the model '" + std::string(model) + "'");
  }
  return verdict;
}

}  // namespace hearth::coordinator::http
