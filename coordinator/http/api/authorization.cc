#include "coordinator/http/api/authorization.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <cmath>

#include "base/limits.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/membership/credentials.h"

namespace hearth::coordinator::http {
namespace {

constexpr double kMinute = 60.0;

// The token of "Bearer TOKEN"; the scheme in any case (RFC 9110, 11.1). Empty: another scheme.
std::string_view bearer_token(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (!boost::istarts_with(value, kScheme)) return {};
  value.remove_prefix(kScheme.size());
  const std::size_t begin = std::min(value.find_first_not_of(' '), value.size());
  return value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
}

// Rules for API keys; check_member() has those for members.
bool asks_admin(Access access) {
  return access == Access::kAdmin || access == Access::kManage || access == Access::kState;
}

}  // namespace

std::string member_owner(const PublicKey& key) { return std::string(kMemberOwner) + key.hex(); }

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
  return ApiError::of(401,
                      "this API needs a valid key in the header Authorization: Bearer hk1...; the "
                      "server's owner creates keys with hearth key create",
                      "invalid_api_key", "authentication_error");
}

// Only a sender that has shown the secret of the key gets this error.
ApiError Authorization::revoked_key(const ApiKey& key) {
  log_refusal("key " + key.id + " was revoked");
  const std::string name = key.name.empty() || key.name == key.id ? "" : " (" + key.name + ")";
  return ApiError::of(401,
                      "the API key " + key.id + name +
                          " was revoked; send another one: the server's owner creates keys with "
                          "hearth key create",
                      "invalid_api_key", "authentication_error");
}

ApiError Authorization::owner_needed(const std::string& reason) {
  log_refusal(reason);
  return ApiError::of(
      403,
      "this route needs the key that hearth init wrote to admin.key in the server's data "
      "folder; run the command on the server's machine, as the user that runs it",
      "owner_key_needed", "permission_error");
}

ApiError Authorization::admin_needed(const std::string& reason) {
  log_refusal(reason);
  return ApiError::of(403,
                      "this route needs an admin key; the server's owner creates one with hearth "
                      "key create NAME --admin",
                      "admin_key_needed", "permission_error");
}

Authorization::Verdict Authorization::check_member(const Member& member, Access access) {
  const bool admin = member.role == Role::kAdmin;
  const std::string who = std::string(role_name(member.role)) + " " + member.name;
  if (access == Access::kOwner) return {owner_needed(who + " is not the server's owner")};
  const bool needs_admin = access == Access::kAdmin || access == Access::kManage;
  if (needs_admin && !admin) return {admin_needed(who + " is not an admin")};
  if (access == Access::kState && member.role == Role::kClient) {
    return {admin_needed(who + " may only send prompts")};
  }
  Verdict verdict;
  verdict.policy.owner = member_owner(member.key);
  verdict.policy.account = admin ? own_ : member.key;
  verdict.manages = admin;
  return verdict;
}

Authorization::Verdict Authorization::check(const RequestHead& head, Access access,
                                            const std::vector<std::string>& served, bool local,
                                            const Member* member) {
  if (access == Access::kPage) return {};
  if (member != nullptr && !has_key(head.authorization)) return check_member(*member, access);
  if (access == Access::kLocal && local) return {};
  // A proxy carries requests of clients that are not this machine's users. Clients that must send
  // some key send a placeholder, which is ignored; anything that contains a key of ours is checked.
  const bool open = (!store_ || open_) && !head.forwarded && member == nullptr;
  if (open && (!store_ || (head.authorizations <= 1 && !has_key(head.authorization)))) {
    if (access == Access::kManage) return {admin_needed("no admin key")};
    if (access != Access::kOwner) return {};
    return {owner_needed("no key of the server's owner")};
  }
  if (!store_ || head.authorizations != 1) {
    return {unauthorized(head.authorizations > 1 ? "two Authorization headers"
                         : head.forwarded        ? "no Authorization header, through a proxy"
                                                 : "no Authorization header")};
  }
  const auto key = check_key(*store_, bearer_token(head.authorization));
  if (!key.ok()) {
    if (key.error().code == ErrorCode::kRefused) {
      const auto revoked = find_revoked_key(*store_, bearer_token(head.authorization));
      if (revoked.ok() && *revoked) return {revoked_key(**revoked)};
      return {unauthorized(key.error().message)};
    }
    spdlog::error("API: {}", key.error().message);
    return {std::nullopt, true};
  }
  if (const std::uint32_t wait = rates_.take(key->id, key->requests_per_minute, clock_.now())) {
    ApiError error =
        ApiError::of(429,
                     fmt::format("the API key's rate limit is {} requests a minute; retry in {} s",
                                 key->requests_per_minute, wait),
                     "rate_limit_exceeded", "rate_limit_error");
    error.retry_after = wait;
    return {std::move(error)};
  }
  if (access == Access::kOwner && key->id != owner_key_) {
    return {owner_needed("key " + key->id + " is not the key in the server's admin.key")};
  }
  if (asks_admin(access) && !key->admin) {
    return {admin_needed("key " + key->id + " is not an admin key")};
  }
  Verdict verdict;
  verdict.models = key->models;
  verdict.manages = key->admin;
  verdict.policy.trust = key->trust;
  verdict.policy.owner = key->id;
  verdict.policy.account = account_of(*key, store_->secret_key(), own_);
  verdict.policy.verify = key->verify;
  verdict.policy.min_level = key->min_level;
  const bool has_one =
      key->models.empty() || std::ranges::any_of(served, [&](const std::string& model) {
        return std::ranges::find(key->models, model) != key->models.end();
      });
  if (access == Access::kModel && !has_one) verdict.refusal = model_not_allowed(served.front());
  return verdict;
}

}  // namespace hearth::coordinator::http
