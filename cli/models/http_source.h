// HttpSource: reads ranges of a model file from a web server.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/models/hub.h"
#include "node/layers/model_fetch.h"

namespace hearth::cli {

class HttpSource final : public node::RangeSource {
 public:
  // `file_bytes`: the length of the whole file; a server with another length has another file.
  // `stall`: a request ends after this time without a byte.
  HttpSource(Remote remote, std::uint64_t file_bytes,
             std::chrono::seconds stall = std::chrono::seconds(30))
      : name_(client::without_secrets(remote.url)),
        remote_(std::move(remote)),
        file_bytes_(file_bytes),
        stall_(stall) {}

  const std::string& name() const override { return name_; }
  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) override;

 private:
  std::unique_ptr<client::HttpClient> take_client();

  const std::string name_;  // as it may be shown
  const Remote remote_;
  const std::uint64_t file_bytes_;
  const std::chrono::seconds stall_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<client::HttpClient>> idle_;  // with connections that are still open
};

}  // namespace hearth::cli
