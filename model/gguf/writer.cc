#include "model/gguf/writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/gguf/quantize.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kGgufMagicWritten = 0x46554747;  // "GGUF"
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kHeadBytes = 24;  // magic, version and the two counts
constexpr std::uint64_t kChunkBytes = 4 * limits::kMiB;

std::uint64_t padding(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

Error write_error(const std::string& path) {
  return Error::of(ErrorCode::kIo, quote(path), ": cannot write the file: ", std::strerror(errno));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

GgufWriter::GgufWriter(std::uint32_t alignment) : alignment_(alignment) {
  if (alignment != 32) add("general.alignment", alignment);
}

void GgufWriter::begin_value(std::string_view key, std::uint32_t type) {
  put(key);
  put(type);
  ++value_count_;
}

void GgufWriter::put(std::string_view text) {
  put(std::uint64_t{text.size()});
  ByteWriter(values_).append(as_bytes(text));
}

void GgufWriter::add_tensor(std::string_view name, TensorType type,
                            const std::vector<std::uint64_t>& dims, RowSource source) {
  INVARIANT(!dims.empty(), "a tensor has dimensions");
  Tensor tensor{std::string(name), type, dims, 1, row_bytes(type, dims[0]), std::move(source)};
  ByteWriter record(records_);
  record.write(std::uint64_t{name.size()});
  record.append(as_bytes(name));
  record.write(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) record.write(dim);
  record.write(static_cast<std::uint32_t>(type));
  record.write(data_bytes_);
  for (std::size_t i = 1; i < dims.size(); ++i) tensor.rows *= dims[i];
  data_bytes_ += tensor.rows * tensor.row_bytes;
  data_bytes_ += padding(data_bytes_, alignment_);
  INVARIANT(data_bytes_ % alignment_ == 0, "every tensor begins at the alignment");
  INVARIANT(tensor.row_bytes > 0 && tensor.source, "a tensor has rows and their source");
  tensors_.push_back(std::move(tensor));
}

Bytes GgufWriter::header() const {
  Bytes out;
  out.reserve(kHeadBytes + values_.size() + records_.size() + alignment_);
  ByteWriter writer(out);
  writer.write(kGgufMagicWritten);
  writer.write(kVersion);
  writer.write(std::uint64_t{tensors_.size()});
  writer.write(value_count_);
  writer.append(values_);
  writer.append(records_);
  out.resize(out.size() + padding(out.size(), alignment_));
  return out;
}

Status GgufWriter::emit(const Sink& sink) const {
  TRY_VOID(sink(header()));
  Bytes chunk;
  for (const Tensor& tensor : tensors_) {
    const std::uint64_t rows = std::max<std::uint64_t>(1, kChunkBytes / tensor.row_bytes);
    for (std::uint64_t row = 0; row < tensor.rows; row += rows) {
      const std::uint64_t count = std::min(rows, tensor.rows - row);
      chunk.resize(count * tensor.row_bytes);
      for (std::uint64_t i = 0; i < count; ++i) {
        TRY_VOID(tensor.source(
            row + i, MutableByteSpan(chunk).subspan(i * tensor.row_bytes, tensor.row_bytes)));
      }
      TRY_VOID(sink(chunk));
    }
    chunk.assign(padding(tensor.rows * tensor.row_bytes, alignment_), std::byte{0});
    TRY_VOID(sink(chunk));
  }
  return ok_status();
}

Status GgufWriter::write(const std::string& path) const {
  return write_file(path, [this](std::FILE*, const Sink& sink) { return emit(sink); });
}

Status GgufWriter::write_hollow(const std::string& path) const {
  return write_file(path, [&](std::FILE* file, const Sink& sink) -> Status {
    const Bytes head = header();
    TRY_VOID(sink(head));
    const auto length = static_cast<off_t>(head.size() + data_bytes_);
    if (std::fflush(file) != 0 || ::ftruncate(::fileno(file), length) != 0) {
      return write_error(path);
    }
    return ok_status();
  });
}

// Processes may write the same file at once, each beside it under a name of its own.
Status GgufWriter::write_file(
    const std::string& path,
    const std::function<Status(std::FILE* file, const Sink& sink)>& fill) const {
  const std::string partial = path + "." + std::to_string(::getpid()) + ".partial";
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(partial.c_str(), "wb"));
  if (file == nullptr) return write_error(partial);
  const Status written = fill(file.get(), [&](ByteSpan bytes) -> Status {
    if (bytes.empty() || std::fwrite(bytes.data(), bytes.size(), 1, file.get()) == 1) {
      return ok_status();
    }
    return write_error(partial);
  });
  const bool closed = std::fclose(file.release()) == 0;
  if (written.ok() && closed && std::rename(partial.c_str(), path.c_str()) == 0) return ok_status();
  const Error error = written.ok() ? write_error(path) : written.error();
  std::remove(partial.c_str());
  return error;
}

Result<Bytes> GgufWriter::bytes() const {
  Bytes out;
  TRY_VOID(emit([&](ByteSpan bytes) -> Status {
    ByteWriter(out).append(bytes);
    return ok_status();
  }));
  return out;
}

}  // namespace hearth::model
