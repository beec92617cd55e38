// The manifest of the model that a server serves, made while it serves: hashing takes a second or
// so for every gigabyte. A file that has not changed since is not read again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "cli/home/manifest_file.h"

namespace hearth::cli {

class ServedManifest {
 public:
  struct Options {
    std::string folder;  // of the server's data
    SecretKey cluster;   // signs it
    std::string model;   // path of the file
    std::vector<std::string> sources;
    std::function<void(std::function<void()>)> post;  // to the owner's thread
    std::function<void(const ManifestFile&)> ready;   // there, once
  };
  explicit ServedManifest(Options options);
  ~ServedManifest();  // gives up
  ServedManifest(const ServedManifest&) = delete;
  ServedManifest& operator=(const ServedManifest&) = delete;

  std::uint64_t hashed() const { return hashed_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  Status make();

  const Options options_;
  std::atomic<std::uint64_t> hashed_{0};
  std::atomic<std::uint64_t> file_bytes_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace hearth::cli
