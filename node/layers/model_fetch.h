// Fetches exactly the tensors that a stage needs, and compares each with the manifest before it
// counts. A whole model on the disk, in one file or in parts, is used in place. Otherwise a sparse
// file of the model's full length gets the header and the wanted tensors, from any number of
// sources at once. A killed fetch continues where it stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/manifest.h"
#include "proto/wrong_bytes.h"

namespace hearth::node {

// A source of a model file's bytes: a web server or another node.
class RangeSource {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  virtual ~RangeSource() = default;
  virtual const std::string& name() const = 0;     // for people
  virtual std::string node() const { return {}; }  // its name in the roster; empty: not a node
  // Passes exactly the bytes [begin, end) to the sink, in order. Called from several threads at
  // once. An empty piece only asks the sink whether to go on. kUnavailable and kTimeout: a retry
  // may help. Any other error: the source is useless.
  virtual Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) = 0;
};

struct FetchOptions {
  std::string folder;                                 // of the sparse file; it exists
  std::vector<std::string> files;                     // on this disk, that may be the model
  std::vector<std::shared_ptr<RangeSource>> sources;  // empty: nothing is fetched
  std::uint32_t connections = 4;                      // at once, over all sources
  std::chrono::milliseconds pause{250};               // after a failure; doubles, up to 32 times
  // All four may be empty; one thread at a time calls them.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  std::function<void(const std::string&)> warn;  // a source or file is dropped, and why
  std::function<void(const WrongBytes&)> wrong;  // one node sent all of them, and is dropped
  std::function<bool()> cancelled;               // called often; true ends it with kCancelled
};

struct Fetched {
  // A GGUF file, or the first part of several, with verified header and wanted tensors. The rest of
  // a sparse file is zeros and must not be read.
  std::string path;
  bool in_place = false;      // a file of FetchOptions::files
  std::uint64_t wanted = 0;   // bytes of header and tensors
  std::uint64_t fetched = 0;  // bytes that sources sent in this call
};

// `tensors`: indices into the manifest. kIo when the disk is full, with the bytes needed and kept;
// kUnavailable when every source has failed, with each reason; kNotFound without any source.
// Fetched bytes are kept in every case.
Result<Fetched> fetch_tensors(const model::Manifest& manifest,
                              const std::vector<std::size_t>& tensors, const FetchOptions& options);

}  // namespace hearth::node
