// hearth verify: whether a log proves what a receipt of an answer says, offline.
#pragma once

#include <string>

namespace hearth::cli {

struct VerifyOptions {
  std::string receipt;  // as hearth.receipt and x-hearth-receipt have it
  std::string folder;   // a server's data folder or a log's own; empty: this machine's
  std::string key;      // the log's; empty: the one that it names
  bool json = false;
};

int run_verify(const VerifyOptions& options);

}  // namespace hearth::cli
