#include "coordinator/membership/credentials.h"

#include <algorithm>
#include <array>

#include "base/hex.h"
#include "base/limits.h"
#include "proto/join_token.h"
#include "proto/link/admission.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kIdDigits = JoinToken::kIdDigits;
constexpr std::size_t kIdBytes = kIdDigits / 2;
constexpr std::size_t kSecretBytes = 32;
static_assert(kIdDigits % 2 == 0, "an id is a whole number of bytes");
constexpr std::size_t kSecretCharacters = JoinToken::kSecretCharacters;
constexpr std::string_view kKeyPrefix = "hk1.";

Error refused(std::string reason) { return {ErrorCode::kRefused, std::move(reason)}; }

std::string random_id() {
  std::array<std::byte, kIdBytes> bytes;
  random_bytes(bytes);
  return to_hex(bytes);
}

std::string random_secret() {
  std::array<std::byte, kSecretBytes> bytes;
  random_bytes(bytes);
  return base64url(bytes);
}

bool is_id(std::string_view text) {
  return text.size() == kIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool same(const Hash256& a, const Hash256& b) { return equal_secrets(a.bytes, b.bytes); }

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7E; });
}

// `kind` keeps the secret of a token from being one of a key, and the id from another's secret.
Hash256 secret_hash(const Store& store, std::string_view kind, std::string_view id,
                    std::string_view secret) {
  std::string message(kind);
  message += '.';
  message += id;
  message += '.';
  message += secret;
  return keyed_blake2b(store.secret_key(), as_bytes(message));
}

Status check_list(const std::string& field, const std::vector<std::string>& names, std::size_t most,
                  std::size_t bytes) {
  REQUIRE(names.size() <= most, field, " has ", names.size(), " names; an API key has at most ",
          most);
  for (const std::string& name : names) {
    REQUIRE(!name.empty() && name.size() <= bytes && is_printable(name) &&
                name.find(',') == std::string::npos,
            field, ": each name has 1 to ", bytes,
            " bytes of printable ASCII characters and no comma");
  }
  return ok_status();
}

Status check_names(const NewKey& wish) {
  REQUIRE(wish.name.size() <= limits::kApiKeyNameBytes && is_printable(wish.name), "name: at most ",
          limits::kApiKeyNameBytes, " bytes of printable ASCII characters");
  REQUIRE(!is_id(wish.name), "name: 16 hexadecimal digits could be the id of another key");
  TRY_VOID(check_list("models", wish.models, limits::kApiKeyModels, limits::kModelNameBytes));
  TRY_VOID(check_list("trust", wish.trust, limits::kApiKeyModels, limits::kNodeNameBytes));
  REQUIRE(wish.requests_per_minute <= limits::kApiKeyRate, "rate: at most ", limits::kApiKeyRate,
          " requests a minute, or 0 for any number");
  return ok_status();
}

}  // namespace

const char* token_state(const TokenRecord& token, std::int64_t now) {
  if (token.revoked) return "revoked";
  if (token.uses_left == 0) return "used";
  return now >= token.expires ? "expired" : "valid";
}

TokenSecret new_token_secret() { return {random_id(), random_secret()}; }

Result<TokenSecret> create_token(Store& store, const NewToken& wish, std::int64_t now) {
  REQUIRE(wish.seconds >= 1 && wish.seconds <= limits::kTokenSeconds, "lifetime: 1 to ",
          limits::kTokenSeconds, " seconds");
  REQUIRE(wish.uses >= 1 && wish.uses <= limits::kTokenUses, "uses: 1 to ", limits::kTokenUses);
  if (!wish.owner.empty()) TRY_VOID(check_owner_name(wish.owner));
  REQUIRE(!wish.newcomer || wish.role == Role::kWorker,
          "newcomer: only a worker can be a newcomer, because a ", role_name(wish.role),
          " computes nothing");
  const TokenSecret secret = new_token_secret();
  TokenRecord token;
  token.id = secret.id;
  token.secret_hash = secret_hash(store, "token", secret.id, secret.secret);
  token.role = wish.role;
  token.created = now;
  token.expires = now + wish.seconds;
  token.uses_left = wish.uses;
  token.owner = wish.owner;
  token.newcomer = wish.newcomer;
  TRY_VOID(store.add_token(token));
  return secret;
}

Status check_owner_name(std::string_view name) {
  REQUIRE(!name.empty() && name.size() <= limits::kNodeNameBytes && is_printable(name),
          "an owner's name has 1 to ", limits::kNodeNameBytes,
          " bytes of printable ASCII characters");
  return ok_status();
}

Hash256 owner_id(const Store& store, std::string_view name) {
  return keyed_blake2b(store.secret_key(), as_bytes("owner." + std::string(name)));
}

Status open_door(Store& store, std::int64_t now) {
  TRY(const bool open, store.any_token(now + limits::kDoorSeconds / 2));
  if (!open) TRY_VOID(create_token(store, {Role::kWorker, limits::kDoorSeconds, 1}, now));
  return ok_status();
}

Result<Role> check_token(Store& store, std::string_view id, std::string_view secret,
                         std::int64_t now) {
  if (!is_id(id) || secret.size() != kSecretCharacters) return refused("malformed join token");
  const Hash256 given = secret_hash(store, "token", id, secret);
  TRY(const auto token, store.find_token(id));
  const bool right = same(given, token ? token->secret_hash : store.secret_key());
  const std::string which = "join token " + std::string(id);
  if (!token) return refused(which + " is unknown");
  if (!right) return refused(which + ": wrong secret");
  const std::string spent = std::string(kTokenSpent) + ": " + which;
  if (token->revoked) return refused(spent + " was revoked");
  if (now >= token->expires) return refused(spent + " has expired");
  if (token->uses_left == 0) return refused(spent + " has no use left");
  return token->role;
}

KeySecret new_key(const Store& store, const NewKey& wish, std::int64_t now,
                  const std::optional<PublicKey>& node) {
  const std::string secret = random_secret();
  KeySecret out;
  static_cast<NewKey&>(out.key) = wish;
  out.key.id = random_id();
  out.key.secret_hash = secret_hash(store, "key", out.key.id, secret);
  if (wish.name.empty()) out.key.name = out.key.id;
  out.key.created = now;
  out.key.node = node;
  out.text = std::string(kKeyPrefix) + out.key.id + "." + secret;
  return out;
}

Result<KeySecret> create_key(Store& store, const NewKey& wish, std::int64_t now) {
  TRY_VOID(check_names(wish));
  KeySecret made = new_key(store, wish, now);
  TRY_VOID(store.add_key(made.key));
  return made;
}

bool has_key(std::string_view text) { return text.find(kKeyPrefix) != std::string_view::npos; }

namespace {

struct ShownKey {
  std::string id;
  std::optional<ApiKey> key;  // nothing: unknown
  bool right = false;         // its secret was shown
};

// An unknown id takes the time of a wrong secret.
Result<ShownKey> look_at_key(Store& store, std::string_view text) {
  const bool shaped = text.size() == kKeyPrefix.size() + kIdDigits + 1 + kSecretCharacters &&
                      text.starts_with(kKeyPrefix) && text[kKeyPrefix.size() + kIdDigits] == '.';
  if (!shaped) return refused("no API key");
  ShownKey shown;
  shown.id = text.substr(kKeyPrefix.size(), kIdDigits);
  if (!is_id(shown.id)) return refused("no API key");
  const std::string_view secret = text.substr(kKeyPrefix.size() + kIdDigits + 1);
  const Hash256 given = secret_hash(store, "key", shown.id, secret);
  TRY(shown.key, store.find_key(shown.id));
  const bool same_hash = same(given, shown.key ? shown.key->secret_hash : store.secret_key());
  shown.right = shown.key && same_hash;
  return shown;
}

}  // namespace

Result<ApiKey> check_key(Store& store, std::string_view text) {
  TRY(ShownKey shown, look_at_key(store, text));
  if (!shown.key) return refused("key " + shown.id + " is unknown");
  if (!shown.right) return refused("key " + shown.id + ": wrong secret");
  if (shown.key->revoked) return refused("key " + shown.id + " was revoked");
  return std::move(*shown.key);
}

Result<std::optional<ApiKey>> find_revoked_key(Store& store, std::string_view text) {
  auto shown = look_at_key(store, text);
  if (!shown && shown.error().code == ErrorCode::kRefused) return std::optional<ApiKey>();
  if (!shown) return shown.error();
  if (!shown->right || !shown->key->revoked) return std::optional<ApiKey>();
  return std::move(shown->key);
}

}  // namespace hearth::coordinator
