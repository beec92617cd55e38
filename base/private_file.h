// Folders and small files that only their owner may read: keys, rosters, tokens.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth {

// The whole file. kNotFound when it does not exist. kInvalidInput when it is not a plain file,
// belongs to another user, may be read or written by others than its owner, or is longer than
// `limit`; the message then ends with the command that repairs it. Never blocks, even for a pipe or
// a device.
Result<Bytes> read_private_file(const std::string& path, std::size_t limit);

// Replaces or creates the file with mode 0600, at once or not at all, and durably.
Status write_private_file(const std::string& path, ByteSpan bytes);

// Creates the folder, with its parents, for this user alone, and removes what a process that was
// killed has left there of a write_private_file(). kIo with the reason; kInvalidInput, with the
// command that fixes it, for a folder that another user owns or may write in.
Status make_private_folder(const std::string& path);

// A file of write_key_file(). The errors of read_private_file().
Result<SecretKey> read_key_file(const std::string& path);
// kInvalidInput when a file of that name exists: no key is ever overwritten.
Status write_key_file(const std::string& path, const SecretKey& key);
// The key of the file, which is created with a new key where it does not exist.
Result<SecretKey> own_key_file(const std::string& path);

}  // namespace hearth
