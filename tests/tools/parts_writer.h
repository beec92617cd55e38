// Models in several GGUF files (model/gguf/parts.h), for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"
#include "model/gguf/writer.h"
#include "model/synthetic.h"

namespace hearth::model {

class PartsWriter : public GgufWriter {
 public:
  explicit PartsWriter(GgufWriter whole) : GgufWriter(std::move(whole)) {}

  // The same model in so many parts, with about as many tensors each. `bare_first`: the first part
  // has none, as gguf-split writes it with --no-tensor-first-split. kInvalidInput unless there are
  // 2 to limits::kGgufParts parts, and a tensor for each that has any.
  Result<std::vector<GgufWriter>> split(std::uint32_t parts, bool bare_first) const {
    REQUIRE(parts >= 2 && parts <= limits::kGgufParts, parts, " parts; there must be 2 to ",
            limits::kGgufParts);
    const std::size_t bare = bare_first ? 1 : 0;
    const std::size_t filled = parts - bare;
    REQUIRE(filled <= tensors_.size(), parts, " parts of a model of ", tensors_.size(),
            " tensors; each must have one");
    std::vector<GgufWriter> writers;
    for (std::uint32_t i = 0; i < parts; ++i) {
      PartsWriter writer{GgufWriter(alignment_)};
      if (i == 0) {
        writer.values_ = values_;
        writer.value_count_ = value_count_;
      }
      writer.add("split.no", static_cast<std::uint16_t>(i));
      writer.add("split.count", static_cast<std::uint16_t>(parts));
      writer.add("split.tensors.count", static_cast<std::int32_t>(tensors_.size()));
      if (i >= bare) {
        const std::size_t end = tensors_.size() * (i - bare + 1) / filled;
        for (std::size_t at = tensors_.size() * (i - bare) / filled; at < end; ++at) {
          writer.add_tensor(tensors_[at].name, tensors_[at].type, tensors_[at].dims,
                            tensors_[at].source);
        }
      }
      writers.push_back(std::move(writer));
    }
    return writers;
  }

  // Writes them beside `path`, which ends with .gguf: "x.gguf" gives x-00001-of-00003.gguf and so
  // on. Returns the path of the first.
  Result<std::string> write_parts(const std::string& path, std::uint32_t parts,
                                  bool bare_first) const {
    REQUIRE(path.ends_with(".gguf"), quote(path), ": the name of a model in parts ends with .gguf");
    TRY(const std::vector<GgufWriter> writers, split(parts, bare_first));
    const PartName name{path.substr(0, path.size() - 5), {1, parts}};
    for (std::uint32_t i = 0; i < parts; ++i) TRY_VOID(writers[i].write(name.of(i + 1)));
    return name.of(1);
  }
};

inline Result<std::string> write_synthetic_parts(const std::string& path,
                                                 const SyntheticOptions& options,
                                                 std::uint32_t parts, bool bare_first) {
  TRY(GgufWriter writer, synthetic_writer(options));
  return PartsWriter(std::move(writer)).write_parts(path, parts, bare_first);
}

// The bytes of each part.
inline Result<std::vector<Bytes>> synthetic_part_bytes(const SyntheticOptions& options,
                                                       std::uint32_t parts, bool bare_first) {
  TRY(GgufWriter writer, synthetic_writer(options));
  TRY(const std::vector<GgufWriter> writers,
      PartsWriter(std::move(writer)).split(parts, bare_first));
  std::vector<Bytes> bytes;
  for (const GgufWriter& part : writers) {
    TRY(bytes.emplace_back(), part.bytes());
  }
  return bytes;
}

}  // namespace hearth::model
