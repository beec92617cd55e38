#include "cli/models/parts_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "cli/models/hub.h"
#include "cli/terminal/interrupt.h"

namespace hearth::cli {
namespace {

constexpr std::uint64_t kFirstBytes = 256 * limits::kKiB;  // requested of a part to find its header
constexpr std::uint64_t kZeroBytes = 64 * limits::kKiB;  // of padding, passed to the sink at a time

// A part: its source and its header.
struct PartHeader {
  Bytes bytes;
  std::shared_ptr<const model::GgufFile> file;
};

// Reads more and more of a part until its header is complete: no field states the length of a
// header. A server may send it endlessly slowly, so `go_on` is called for every piece.
Result<PartHeader> read_header(HttpSource& part, std::uint64_t part_bytes,
                               model::PartBudget& budget, const node::RangeSource::Sink& go_on) {
  PartHeader header;
  while (true) {
    const std::uint64_t have = header.bytes.size();
    const std::uint64_t most = std::min(part_bytes, budget.header_room());
    const std::uint64_t wanted = std::min(most, std::max(kFirstBytes, 4 * have));
    header.bytes.reserve(wanted);
    const auto sink = [&](ByteSpan bytes) -> Status {
      REQUIRE(bytes.size() <= wanted - header.bytes.size(),
              "the source sends more bytes than requested");
      header.bytes.insert(header.bytes.end(), bytes.begin(), bytes.end());
      return go_on({});
    };
    if (wanted > have) TRY_VOID(part.read(have, wanted, sink));
    if (header.bytes.size() != wanted) {
      return Error{ErrorCode::kUnavailable, "the source ended before the end of the header"};
    }
    auto file = model::GgufFile::parse_part(header.bytes, part_bytes, part.name());
    if (file.ok()) {
      header.file = *std::move(file);
      TRY_VOID(budget.add(*header.file));
      return header;
    }
    const bool hopeless = !as_text(header.bytes).starts_with("GGUF") || wanted == most;
    if (hopeless) return Error{ErrorCode::kUnsupported, file.error().message};
  }
}

}  // namespace

Result<std::shared_ptr<node::RangeSource>> open_source(client::HttpClient& http,
                                                       const std::string& source,
                                                       std::uint64_t file_bytes,
                                                       std::chrono::seconds stall) {
  TRY(std::vector<std::string> sources, part_sources(source));
  if (sources.size() > 1) {
    return std::shared_ptr<node::RangeSource>(
        std::make_shared<PartsSource>(std::move(sources), file_bytes, stall));
  }
  TRY(Remote remote, locate(http, source));
  return std::shared_ptr<node::RangeSource>(
      std::make_shared<HttpSource>(std::move(remote), file_bytes, stall));
}

PartsSource::PartsSource(std::vector<std::string> sources, std::uint64_t file_bytes,
                         std::chrono::seconds stall)
    : name_(client::without_secrets(sources.front())),
      sources_(std::move(sources)),
      file_bytes_(file_bytes),
      stall_(stall) {
  INVARIANT(sources_.size() > 1 && sources_.size() <= limits::kGgufParts, "there are parts");
}

Status PartsSource::read(std::uint64_t begin, std::uint64_t end, const Sink& sink) {
  TRY(const auto source, opened(sink));
  REQUIRE(begin < end && end <= source->map.file_bytes(),
          "the requested bytes are not in the model, which has " +
              std::to_string(source->map.file_bytes()) + " bytes");
  const Bytes zeros(std::min(kZeroBytes, end - begin));
  while (begin < end) {
    model::PartMap::Piece piece = source->map.piece(begin, end);
    if (piece.part) {
      const std::uint64_t from = piece.offset;
      TRY_VOID(source->parts[*piece.part]->read(from, from + piece.bytes, sink));
    } else if (!piece.header.empty()) {
      TRY_VOID(sink(piece.header));
    } else {
      piece.bytes = std::min<std::uint64_t>(piece.bytes, zeros.size());
      TRY_VOID(sink(ByteSpan(zeros).first(piece.bytes)));
    }
    begin += piece.bytes;
  }
  return ok_status();
}

Result<std::shared_ptr<const PartsSource::Opened>> PartsSource::opened(const Sink& sink) {
  const std::lock_guard lock(mutex_);
  if (opened_ == nullptr) {
    TRY(opened_, open(sink));
  }
  return opened_;
}

Result<std::shared_ptr<const PartsSource::Opened>> PartsSource::open(const Sink& sink) {
  client::HttpClient http(interrupted);
  std::vector<PartHeader> headers;
  std::vector<std::unique_ptr<HttpSource>> parts;
  model::PartBudget budget;
  std::string commit;  // of the first part: a branch that moves cannot mix two versions
  for (const std::string& source : sources_) {
    TRY_VOID(sink({}));
    TRY(Remote remote, locate(http, at_commit(source, commit)));
    TRY_VOID(measure(http, remote));
    const std::uint64_t bytes = remote.bytes;
    const std::string shown = client::without_secrets(source);
    if (bytes == 0 || bytes > limits::kModelFileBytes) {
      return Error::of(ErrorCode::kUnsupported, shown, ": the server says that it has ", bytes,
                       " bytes; 1 to ", limits::kModelFileBytes, " are read");
    }
    if (commit.empty()) commit = remote.commit;
    parts.push_back(std::make_unique<HttpSource>(std::move(remote), bytes, stall_));
    TRY(headers.emplace_back(), read_header(*parts.back(), bytes, budget, sink));
  }
  std::vector<std::shared_ptr<const model::GgufFile>> files;
  for (const PartHeader& header : headers) files.push_back(header.file);
  const auto joined = model::join_parts(std::move(files));
  if (!joined.ok()) return Error{ErrorCode::kUnsupported, joined.error().message};
  if ((*joined)->file_bytes() != file_bytes_) {
    return Error::of(ErrorCode::kUnsupported, "its parts make another model, of ",
                     (*joined)->file_bytes(), " bytes as one file, not ", file_bytes_);
  }
  return std::make_shared<const Opened>(Opened{model::PartMap(**joined), std::move(parts)});
}

}  // namespace hearth::cli
