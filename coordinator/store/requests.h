// RequestStore: the kept requests in the Store's file, and their tokens so far. It stores only
// bytes; http/generation/kept_request.h and proto/step.h define them.
//
// It has its own connection, whose commits never wait for the disk: rows lost in a power cut can be
// recomputed. In SQLite, deleted rows are overwritten with zeros, and once the table is empty the
// file's log is emptied too; in PostgreSQL they go with its next vacuum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/store/lease.h"

namespace hearth::coordinator {

struct RequestRow {
  Hash256 name;                    // of owner and key; unique
  Hash256 digest;                  // of path and body
  std::string owner;               // the API key's id, or empty
  std::int64_t ended = 0;          // unix seconds; 0: still running
  Bytes request;                   // at most limits::kKeptRequestBytes
  std::vector<Bytes> tokens = {};  // in the order of writing
};

// A change of a request. Tokens and ends of unknown names are ignored.
struct RequestTokens {
  Hash256 name;
  Bytes tokens;  // at most limits::kKeptTokensBytes
};
struct RequestEnd {
  Hash256 name;
  std::int64_t ended = 0;
};
struct RequestRemoval {
  Hash256 name;
};
using RequestChange = std::variant<RequestRow, RequestTokens, RequestEnd, RequestRemoval>;

// Any thread.
class RequestStore {
 public:
  virtual ~RequestStore() = default;
  // One transaction: all of them or none. A row replaces one of the same name and its tokens.
  virtual Status write(const std::vector<RequestChange>& changes) = 0;

  struct Loaded {
    std::vector<RequestRow> rows;  // newest first, within limits::kKeptRequests and kKeptBytes
    std::size_t dropped = 0;       // rows beyond these limits, or with sizes that no version writes
  };
  // Reads all rows, and deletes those that it drops.
  virtual Result<Loaded> load() = 0;
  virtual Status clear() = 0;  // deletes all
};

// Uses the store of open_store(), which must have been opened before. Errors as in open_store(). A
// lost connection to PostgreSQL is made again by a later call. `term`: as in open_server_store();
// none: of a command.
Result<std::shared_ptr<RequestStore>> open_request_store(const std::string& folder,
                                                         const LeaseTerm& term = {});
class Database;
std::shared_ptr<RequestStore> request_store(std::unique_ptr<Database> db);

}  // namespace hearth::coordinator
