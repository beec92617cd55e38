// hearth verify --dispute: who is wrong in a dispute, from its file alone; the one value in which
// the two differ is computed again by the scalar reference.
#pragma once

#include <string>

namespace hearth::cli {

struct DisputeOptions {
  std::string file;
  std::string model;  // a file or a pulled name; empty: weights are the two's word
  std::string key;    // the cluster's, 64 hex digits; empty: the one that the file names
  bool json = false;
};

// kExitDone when the file proves who is wrong; kExitVerification when it does not, or is not what
// the two have signed.
int run_dispute(const DisputeOptions& options);

}  // namespace hearth::cli
