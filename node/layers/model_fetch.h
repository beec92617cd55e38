// Brings exactly the tensors that a stage needs to this machine, and nothing unchecked: each is
// compared with the manifest before it counts. A whole model that is on the disk already, in one
// file or in parts, is used where it lies. Otherwise a sparse file of the model's full length gets
// the header and the wanted tensors, from any number of sources at once, and goes on after a kill
// where it stopped.
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

// Where bytes of a model file may come from: a web server, another node.
class RangeSource {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  virtual ~RangeSource() = default;
  virtual const std::string& name() const = 0;     // for people
  virtual std::string node() const { return {}; }  // its name in the roster; empty: it is no node
  // Hands the bytes [begin, end) to the sink, in order and no others. From several threads at once.
  // An empty piece means nothing: the sink's answer tells whether to go on.
  // kUnavailable and kTimeout: asking again may help. Any other error: this source is of no use.
  virtual Status read(std::uint64_t begin, std::uint64_t end, const Sink& sink) = 0;
};

struct FetchOptions {
  std::string folder;                                 // of the sparse file; it exists
  std::vector<std::string> files;                     // on this disk, that may be the model
  std::vector<std::shared_ptr<RangeSource>> sources;  // empty: nothing is fetched
  std::uint32_t connections = 4;                      // at once, over all sources
  std::chrono::milliseconds pause{250};               // after a failure; doubles, up to 32 times
  // All four are called by one thread at a time, and may be empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  std::function<void(const std::string&)> warn;  // a source or file is used no more, and why
  std::function<void(const WrongBytes&)> wrong;  // a node alone sent them, and is dropped
  std::function<bool()> cancelled;               // asked often; true ends it with kCancelled
};

struct Fetched {
  // A GGUF file, or the first part of several, in which the header and the wanted tensors are
  // right. In the sparse one all else is zeros: read nothing else.
  std::string path;
  bool in_place = false;      // a file of FetchOptions::files
  std::uint64_t wanted = 0;   // bytes of header and tensors
  std::uint64_t fetched = 0;  // bytes that sources sent now
};

// `tensors`: indices into the manifest. kIo when the disk is full, with how much is needed and what
// is kept; kUnavailable when no source is left, with why each was given up; kNotFound when there
// was none to begin with. What has come is kept in every case.
Result<Fetched> fetch_tensors(const model::Manifest& manifest,
                              const std::vector<std::size_t>& tensors, const FetchOptions& options);

}  // namespace hearth::node
