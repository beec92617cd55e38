// ServedManifest: makes the manifest of the served model in the background, since hashing takes
// about a second per gigabyte. An unchanged file is not hashed again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "cli/home/manifest_file.h"
#include "coordinator/store/lease.h"
#include "node/layers/model_bytes.h"

namespace hearth::cli {

class ServedManifest {
 public:
  struct Options {
    std::string folder;  // of the server's data
    SecretKey cluster;   // signs it
    std::string model;   // path of the file
    std::vector<std::string> sources;
    std::function<void(std::function<void()>)> post;  // runs a function on the main thread
    // There, once; with the model's files, open.
    std::function<void(const ManifestFile&, std::shared_ptr<const node::ModelBytes>)> ready;
    std::optional<model::Manifest> known = {};  // of this file, which is not hashed again
    coordinator::LeaseTerm term = {};  // of a coordinator that shares its store with others
  };
  explicit ServedManifest(Options options);  // the destructor gives up

  std::uint64_t hashed() const { return hashed_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  Status make(const std::stop_token& stop);
  Status follow_others(ManifestFile& kept) const;
  Status tell_others(const ManifestFile& kept, const std::stop_token& stop) const;

  const Options options_;
  std::atomic<std::uint64_t> hashed_{0};
  std::atomic<std::uint64_t> file_bytes_{0};
  std::jthread thread_;
};

}  // namespace hearth::cli
