#include "node/engine/card/card_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/cuda/digest.h"
#include "model/gguf/file_pages.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;
using cuda::kTileRows;

constexpr std::size_t kPartBytes = 32 << 20;  // of the two that are packed and sent in turns

// For read_stage(): places, and remembers what is to be loaded.
class Placer {
 public:
  Placer(const model::GgufFile& file, Placement& placement, std::vector<CardTensor>& tensors)
      : file_(file), placement_(placement), tensors_(tensors) {}

  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                cuda::CardMatrix& out, std::uint32_t experts = 1) const {
    REQUIRE(experts == 1, "tensor ", name, " has experts, which no GPU computes");
    CardTensor tensor;
    tensor.name = name;
    TRY(tensor.file, model::require_tensor(file_, name, {cols, rows}));
    TRY(tensor.type, model::weight_type(tensor.file->type, name));
    if (!cuda::has_tiles(tensor.type)) {
      const auto type = static_cast<std::uint32_t>(tensor.file->type);
      return Error::of(ErrorCode::kUnsupported, "tensor ", name, " is of type ",
                       model::tensor_type_name(type),
                       ", which runs on the CPU alone; use --device cpu");
    }
    const cuda::TileShape shape = cuda::tile_shape(tensor.type, rows, cols);
    tensor.is_matrix = true;
    tensor.rows = rows;
    tensor.cols = cols;
    tensor.bytes = shape.bytes();
    tensor.data = placement_.take<std::byte>(tensor.bytes);
    tensor.exponents = placement_.take<std::int32_t>(std::size_t{shape.tiles} * kTileRows);
    out = {tensor.type, rows, cols, tensor.data, tensor.exponents};
    tensors_.push_back(std::move(tensor));
    return ok_status();
  }

  Status heads(const std::string& name, std::uint32_t, std::uint32_t, std::uint32_t,
               cuda::CardMatrix&) const {
    return Error::of(ErrorCode::kUnsupported, "tensor ", name,
                     " is of latent attention, which no GPU computes");
  }

  Status part(const std::string& name, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
              cuda::CardMatrix&, std::uint32_t = 1) const {
    return Error::of(ErrorCode::kUnsupported, "tensor ", name,
                     " holds several matrices, which no GPU computes");
  }

  Status table(const std::string& name, std::uint32_t, std::uint32_t, CardVector&) const {
    return Error::of(ErrorCode::kUnsupported, "tensor ", name,
                     " is of a gated delta net, which no GPU computes");
  }

  Status vector(const std::string& name, std::uint32_t size, CardVector& out,
                std::uint32_t experts = 1) const {
    REQUIRE(experts == 1, "tensor ", name, " has experts, which no GPU computes");
    CardTensor tensor;
    tensor.name = name;
    TRY(tensor.file, model::require_tensor(file_, name, {size}));
    REQUIRE(tensor.file->type == model::TensorType::kF32, "tensor ", name, " is not F32");
    tensor.bytes = size * sizeof(float);
    out.data = placement_.take<float>(size);
    tensor.data = reinterpret_cast<std::byte*>(out.data);
    tensors_.push_back(std::move(tensor));
    return ok_status();
  }

 private:
  const model::GgufFile& file_;
  Placement& placement_;
  std::vector<CardTensor>& tensors_;
};

// Sizes of rows in pinned memory: their tiles, then their exponents.
struct PartShape {
  std::size_t tile_bytes = 0;
  std::size_t exponent_bytes = 0;
};

PartShape shape_of(const CardTensor& tensor, std::uint32_t rows) {
  const cuda::TileShape shape = cuda::tile_shape(tensor.type, rows, tensor.cols);
  return {shape.bytes(), std::size_t{shape.tiles} * kTileRows * sizeof(std::int32_t)};
}

std::size_t bytes_of(const PartShape& shape) { return shape.tile_bytes + shape.exponent_bytes; }

// Bytes of `rows` rows of a matrix, or of a whole vector.
std::size_t bytes_of(const CardTensor& tensor, std::uint32_t rows) {
  return tensor.is_matrix ? bytes_of(shape_of(tensor, rows)) : tensor.bytes;
}

class Loader {
 public:
  Loader(const model::GgufFile& file, kernels::ThreadPool& pool, cuda::Stream copies)
      : file_(file), pool_(pool), copies_(copies), pages_(file) {}

  Status prepare(const std::vector<CardTensor>& tensors) {
    std::size_t least = 0;  // the longest vector, or one tile of rows of the widest matrix
    std::size_t most = 0;   // what is packed of the largest tensor
    for (const CardTensor& tensor : tensors) {
      least = std::max(least, bytes_of(tensor, kTileRows));
      most = std::max(most, bytes_of(tensor, tensor.rows));
    }
    const std::size_t bytes = std::max(least, std::min(kPartBytes, most));
    for (Part& part : parts_) {
      TRY(part.memory, cuda::PinnedMemory::allocate(bytes));
      TRY(part.sent, cuda::make_event());
    }
    return ok_status();
  }

  template <typename Done>
  Status load(CardTensor& tensor, const Done& done) {
    const ByteSpan bytes = file_.tensor_bytes(*tensor.file);
    const Status loaded = tensor.is_matrix ? matrix(tensor, bytes, done) : vector(tensor, bytes);
    if (!tensor.is_matrix && loaded.ok()) done(bytes.size());
    pages_.drop(bytes, true);
    if (loaded.ok()) return loaded;
    return Error{loaded.error().code, "tensor " + tensor.name + ": " + loaded.error().message};
  }

 private:
  struct Part {
    cuda::PinnedMemory memory;
    cuda::OwnedEvent sent;
  };

  // The part whose copies are the oldest, once they are done.
  Result<Part*> next_part() {
    Part& part = parts_[turn_++ % 2];
    TRY_VOID(cuda::synchronize(part.sent.get()));
    return &part;
  }

  Status vector(CardTensor& tensor, ByteSpan bytes) {
    TRY(Part* const part, next_part());
    TRY_VOID(pages_.bring(bytes));
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      float value;
      std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
      REQUIRE(std::isfinite(value), "value ", i, " is not finite");
    }
    std::memcpy(part->memory.data(), bytes.data(), bytes.size());
    tensor.digest = cuda::digest_of(bytes, 0);
    TRY_VOID(cuda::copy_to_device(tensor.data, part->memory.data(), bytes.size(), copies_));
    return cuda::record(part->sent.get(), copies_);
  }

  template <typename Done>
  Status matrix(CardTensor& tensor, ByteSpan bytes, const Done& done) {
    const std::size_t row_bytes = bytes.size() / tensor.rows;
    const std::size_t tile = bytes_of(shape_of(tensor, kTileRows));
    const auto rows_of_part =
        static_cast<std::uint32_t>(parts_[0].memory.size() / tile * kTileRows);
    for (std::uint32_t row = 0; row < tensor.rows; row += rows_of_part) {
      const std::uint32_t rows = std::min(rows_of_part, tensor.rows - row);
      TRY(Part* const part, next_part());
      const ByteSpan blocks = bytes.subspan(row * row_bytes, rows * row_bytes);
      TRY_VOID(pack(tensor, row, rows, blocks, part->memory.data()));
      TRY_VOID(send(tensor, row, rows, *part));
      done(blocks.size());
    }
    return ok_status();
  }

  // Every thread some tiles; the error is that of the lowest rows.
  Status pack(CardTensor& tensor, std::uint32_t first, std::uint32_t rows, ByteSpan blocks,
              std::byte* to) {
    const std::size_t row_bytes = blocks.size() / rows;
    const PartShape whole = shape_of(tensor, rows);
    const PartShape one = shape_of(tensor, kTileRows);
    std::mutex mutex;
    std::optional<Error> failure;
    std::uint32_t failed_at = rows;
    const auto claim = [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      const std::uint32_t from = begin * kTileRows;
      const std::uint32_t count = std::min(rows, end * kTileRows) - from;
      const ByteSpan mine = blocks.subspan(from * row_bytes, count * row_bytes);
      const PartShape shape = shape_of(tensor, count);
      const std::span exponents(
          reinterpret_cast<std::int32_t*>(to + whole.tile_bytes + begin * one.exponent_bytes),
          shape.exponent_bytes / sizeof(std::int32_t));
      const MutableByteSpan tiles(to + begin * one.tile_bytes, shape.tile_bytes);
      Status done = pages_.bring(mine);
      if (done.ok())
        done = cuda::pack_tiles(tensor.type, count, tensor.cols, mine, tiles, exponents);
      pages_.drop(mine);
      const std::uint64_t tile_words = tensor.bytes / 4;
      const std::uint64_t at = first / kTileRows + begin;
      const std::uint64_t sum =
          cuda::digest_of(tiles, at * (one.tile_bytes / 4)) +
          cuda::digest_of(std::as_bytes(exponents), tile_words + at * kTileRows);
      const std::lock_guard lock(mutex);
      tensor.digest += sum;
      if (done.ok() || from >= failed_at) return;
      failure = Error{done.error().code,
                      "rows from " + std::to_string(first + from) + " on: " + done.error().message};
      failed_at = from;
    };
    pool_.parallel_for((rows + kTileRows - 1) / kTileRows, 1, claim);
    if (failure) return std::move(*failure);
    return ok_status();
  }

  Status send(const CardTensor& tensor, std::uint32_t first, std::uint32_t rows, Part& part) {
    const PartShape shape = shape_of(tensor, rows);
    const PartShape one = shape_of(tensor, kTileRows);
    const std::size_t tile = first / kTileRows;
    const std::byte* from = part.memory.data();
    TRY_VOID(
        cuda::copy_to_device(tensor.data + tile * one.tile_bytes, from, shape.tile_bytes, copies_));
    TRY_VOID(cuda::copy_to_device(tensor.exponents + first, from + shape.tile_bytes,
                                  shape.exponent_bytes, copies_));
    return cuda::record(part.sent.get(), copies_);
  }

  const model::GgufFile& file_;
  kernels::ThreadPool& pool_;
  const cuda::Stream copies_;
  const model::FilePages pages_;
  Part parts_[2];
  unsigned turn_ = 0;
};

}  // namespace

Result<CardWeights> CardWeights::place(const model::GgufFile& file, const model::ModelSpec& spec,
                                       LayerRange layers, Placement& placement) {
  CardWeights weights;
  TRY_VOID(read_stage(Placer(file, placement, weights.tensors_), spec, layers, nullptr, weights));
  return Result<CardWeights>(std::move(weights));
}

Status CardWeights::load(const model::GgufFile& file, kernels::ThreadPool& pool,
                         cuda::Stream copies, const Progress& progress,
                         const std::function<bool()>& cancelled) {
  Loader loader(file, pool, copies);
  TRY_VOID(loader.prepare(tensors_));
  std::uint64_t all = 0;
  for (const CardTensor& tensor : tensors_) all += file.tensor_bytes(*tensor.file).size();
  std::uint64_t done = 0;
  Status loaded = ok_status();
  for (std::size_t i = 0; i < tensors_.size() && loaded.ok(); ++i) {
    if (cancelled && cancelled()) {
      loaded = Error{ErrorCode::kCancelled, "loading was cancelled"};
      break;
    }
    loaded = loader.load(tensors_[i], [&](std::uint64_t bytes) {
      done += bytes;
      if (progress) progress(done, all);
    });
  }
  model::FilePages(file).drop_all();
  const Status sent = cuda::synchronize(copies);  // before the loader's memory goes
  TRY_VOID(loaded);
  return sent;
}

Status CardWeights::verify(std::uint64_t* sums, std::byte* found, cuda::Stream stream) const {
  const std::size_t bytes = tensors_.size() * sizeof(std::uint64_t);
  TRY_VOID(cuda::fill_zero(sums, bytes, stream));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const CardTensor& tensor = tensors_[i];
    const std::size_t words = tensor.bytes / 4;
    TRY_VOID(cuda::digest(reinterpret_cast<const std::uint32_t*>(tensor.data), words, 0, sums + i,
                          stream));
    if (!tensor.is_matrix) continue;
    const std::size_t rows = (tensor.rows + kTileRows - 1) / kTileRows * kTileRows;
    TRY_VOID(cuda::digest(reinterpret_cast<const std::uint32_t*>(tensor.exponents), rows, words,
                          sums + i, stream));
  }
  TRY_VOID(cuda::copy_to_host(found, sums, bytes, stream));
  TRY_VOID(cuda::synchronize(stream));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::uint64_t sum;
    std::memcpy(&sum, found + i * sizeof sum, sizeof sum);
    if (sum == tensors_[i].digest) continue;
    return Error::of(ErrorCode::kNumeric, "the GPU's memory of tensor ", tensors_[i].name,
                     " has changed since loading: test the GPU");
  }
  return ok_status();
}

std::size_t CardWeights::bytes() const {
  std::size_t sum = 0;
  for (const CardTensor& tensor : tensors_) sum += bytes_of(tensor, tensor.rows);
  return sum;
}

}  // namespace hearth::node
