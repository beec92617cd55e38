// hearth update --check: compares this program with the newest release, as a signed manifest names
// it (cli/doctor/release.h). It installs nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/doctor/release.h"

namespace hearth::cli {

struct UpdateOptions {
  bool check = false;  // required, so that the words say what happens
  std::string from;    // a URL or a file; empty: what the program was built with
  std::string key;     // the project's public key, 64 hex digits; empty: likewise
  bool json = false;
};
Result<int> run_update(const UpdateOptions& options);

// What to print. kRefused when `today`, in unix seconds, is after release.until: an old manifest
// hides newer releases. `current`: this program's version.
Result<std::string> compare_release(const Release& release, const ReleaseVersion& current,
                                    std::int64_t today, bool json);

}  // namespace hearth::cli
