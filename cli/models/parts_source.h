// PartsSource: reads ranges of a model in parts (model/gguf/parts.h) from web servers, as of the
// one file that the parts make.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/models/http_source.h"
#include "model/gguf/parts.h"
#include "node/layers/model_fetch.h"

namespace hearth::cli {

// Opens hf:... or an address: a PartsSource if it names the first of several parts, otherwise an
// HttpSource. A PartsSource contacts the servers only when it is first read. `file_bytes`: of the
// model as one file. kInvalidInput for another part; the errors of resolve_hub().
Result<std::shared_ptr<node::RangeSource>> open_source(client::HttpClient& http,
                                                       const std::string& source,
                                                       std::uint64_t file_bytes,
                                                       std::chrono::seconds stall);

class PartsSource final : public node::RangeSource {
 public:
  // `sources`: of the parts in order, as part_sources() gives them.
  PartsSource(std::vector<std::string> sources, std::uint64_t file_bytes,
              std::chrono::seconds stall);

  const std::string& name() const override { return name_; }
  // kUnsupported when the parts there make another model.
  Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) override;

 private:
  struct Opened {
    model::PartMap map;
    std::vector<std::unique_ptr<HttpSource>> parts;
  };

  // The sink is asked whether to go on.
  Result<std::shared_ptr<const Opened>> opened(const Sink& sink);
  Result<std::shared_ptr<const Opened>> open(const Sink& sink);

  const std::string name_;  // as it may be shown
  const std::vector<std::string> sources_;
  const std::uint64_t file_bytes_;
  const std::chrono::seconds stall_;
  std::mutex mutex_;                      // held while the headers of the parts are fetched
  std::shared_ptr<const Opened> opened_;  // null until all have answered
};

}  // namespace hearth::cli
