// Join tokens and API keys: made, shown once, checked. Only keyed hashes of their secrets are kept
// (store.h). A refusal's message names the exact reason: it is for our own log, and the one who was
// refused hears the same sentence whatever it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"

namespace hearth::coordinator {

struct NewToken {
  Role role = Role::kWorker;
  std::uint32_t seconds = 24 * 3600;
  std::uint32_t uses = 1;
  std::string owner = {};  // as check_owner_name, or empty
  bool newcomer = false;   // of a worker: who comes with it is not vouched for
};
struct TokenSecret {  // as in proto/join_token.h
  std::string id;
  std::string secret;
};
TokenSecret new_token_secret();
// kInvalidInput for a lifetime or a number of uses out of range (base/limits.h), and for a newcomer
// that is not a worker: only workers serve or check.
Result<TokenSecret> create_token(Store& store, const NewToken& wish, std::int64_t now);

// What people call who answers for machines: 1 to limits::kNodeNameBytes printable ASCII
// characters. kInvalidInput names the limit.
Status check_owner_name(std::string_view name);
// As the log names an owner: keyed with the store's own secret, so that names cannot be guessed
// there.
Hash256 owner_id(const Store& store, std::string_view name);

// Lets machines ask to be let in without a token: they are heard while any token is good, so there
// is one for a while, whose secret is never disclosed. Nothing to do where one is good long enough.
Status open_door(Store& store, std::int64_t now);

// What it grants; Store::admit() takes the use. kRefused for what is unknown, wrong, expired, used
// up or revoked: an unknown id takes the time of a wrong secret.
Result<Role> check_token(Store& store, std::string_view id, std::string_view secret,
                         std::int64_t now);

struct KeySecret {
  ApiKey key;
  std::string text;  // hk1.<id>.<secret>: what clients send; shown once
};
// Of `node`, where it is given. Not in the store yet, and no wish of a user: nothing is checked.
KeySecret new_key(const Store& store, const NewKey& wish, std::int64_t now,
                  const std::optional<PublicKey>& node = std::nullopt);
Result<KeySecret> create_key(Store& store, const NewKey& wish, std::int64_t now);

// Whether a text has in it what could be a key.
bool has_key(std::string_view text);
// The key of a text that a client sent; kRefused as above.
Result<ApiKey> check_key(Store& store, std::string_view text);

// The revoked key of a text that has its right secret; nothing for every other text. Its sender
// held the key, and may be told which one it is.
Result<std::optional<ApiKey>> find_revoked_key(Store& store, std::string_view text);

}  // namespace hearth::coordinator
