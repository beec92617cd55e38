// Creates and checks join tokens and API keys. Secrets are shown once; only their keyed hashes are
// kept (store.h). A refusal's message names the exact reason and is for our own log. The refused
// side gets the same sentence for every reason.
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
  bool newcomer = false;   // for workers: nodes that join with it are not vouched for
};
struct TokenSecret {  // as in proto/join_token.h
  std::string id;
  std::string secret;
};
TokenSecret new_token_secret();
// "valid", "revoked", "used" or "expired".
const char* token_state(const TokenRecord& token, std::int64_t now);
// kInvalidInput for a lifetime or a number of uses out of range (base/limits.h), and for a newcomer
// that is not a worker: only workers serve or check.
Result<TokenSecret> create_token(Store& store, const NewToken& wish, std::int64_t now);

// Checks the name of a machine's owner: 1 to limits::kNodeNameBytes printable ASCII characters.
// kInvalidInput names the limit.
Status check_owner_name(std::string_view name);
// The owner's id in the log: keyed with the store's secret, so that readers cannot guess names.
Hash256 owner_id(const Store& store, std::string_view name);

// Allows machines to ask for approval without a join token for some time. They may ask while any
// join token is valid, so this makes one whose secret is never disclosed. It does nothing when a
// valid one lasts long enough.
Status open_door(Store& store, std::int64_t now);

// The role that the join token grants; Store::admit() counts the use. kRefused when it is unknown,
// wrong, expired, used up or revoked. An unknown id takes as long as a wrong secret.
Result<Role> check_token(Store& store, std::string_view id, std::string_view secret,
                         std::int64_t now);

struct KeySecret {
  ApiKey key;
  std::string text;  // hk1.<id>.<secret>: what clients send; shown once
};
// A new key, for `node` if given. It is not stored yet, and `wish` is not checked.
KeySecret new_key(const Store& store, const NewKey& wish, std::int64_t now,
                  const std::optional<PublicKey>& node = std::nullopt);
Result<KeySecret> create_key(Store& store, const NewKey& wish, std::int64_t now);

// Whether a text contains something with the form of a key.
bool has_key(std::string_view text);
// The key of a text that a client sent; kRefused as above.
Result<ApiKey> check_key(Store& store, std::string_view text);

// The revoked key whose right secret the text has; nothing for any other text. Its sender held the
// key and may learn which one it is.
Result<std::optional<ApiKey>> find_revoked_key(Store& store, std::string_view text);

}  // namespace hearth::coordinator
