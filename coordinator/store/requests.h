// RequestStore: the requests in the Store's file that clients may come back to, and their tokens so
// far. Bytes only; what they mean is in http/kept_request.h and proto/step.h.
//
// A connection of its own, whose commits never wait for the disk: what a power cut takes away can
// be computed again. What is deleted is overwritten with zeros in the file, and once the table is
// empty the file's log is emptied, too.
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

namespace hearth::coordinator {

struct RequestRow {
  Hash256 name;                    // of owner and key; unique
  Hash256 digest;                  // of what was asked
  std::string owner;               // the API key's id, or empty
  std::int64_t ended = 0;          // unix seconds; 0: it runs
  Bytes request;                   // at most limits::kKeptRequestBytes
  std::vector<Bytes> tokens = {};  // in the order in which they were written
};

// What is written of a request, in order. Tokens and ends of unknown names are ignored.
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
    std::size_t dropped = 0;       // that were not, or have sizes that no version writes
  };
  // Everything there is; what it drops is deleted.
  virtual Result<Loaded> load() = 0;
  virtual Status clear() = 0;  // deletes all
};

// In the file of open_store(), which must have been opened before; its errors.
Result<std::shared_ptr<RequestStore>> open_request_store(const std::string& folder);

}  // namespace hearth::coordinator
