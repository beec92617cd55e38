#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

constexpr std::uint32_t kGgufMagic = 0x46554747;                      // "GGUF"
constexpr std::uint64_t kMinimumValueBytes = 8 + 1 + 4 + 1;           // key, type, one byte
constexpr std::uint64_t kMinimumTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, one dim, type, offset

// Bytes of one value, or the fewest that one can take; 0 for a type that does not exist.
std::uint64_t value_bytes(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool: return 1;
    case kU16:
    case kI16: return 2;
    case kU32:
    case kI32:
    case kF32: return 4;
    case kString:
    case kU64:
    case kI64:
    case kF64: return 8;
    default: return 0;
  }
}

std::string number(std::uint64_t value) { return std::to_string(value); }

// Arithmetic on sizes from the file. False, and the value untouched, when the result leaves 64
// bits.
[[nodiscard]] bool checked_multiply(std::uint64_t& value, std::uint64_t factor) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(value, factor, &product)) return false;
  value = product;
  return true;
}

[[nodiscard]] bool checked_add(std::uint64_t& value, std::uint64_t term) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(value, term, &sum)) return false;
  value = sum;
  return true;
}

// Up to the next multiple of alignment, a power of two.
[[nodiscard]] bool checked_align(std::uint64_t& value, std::uint64_t alignment) {
  if (!checked_add(value, alignment - 1)) return false;
  value &= ~(alignment - 1);
  return true;
}

}  // namespace

// The one pass over a header that fills a GgufFile.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file)
      : file_(file),
        reader_(file.bytes_.first(std::min(file.bytes_.size(), limits::kGgufHeaderBytes))) {}
  // Fills the file's values, tensors and fingerprint. Call once.
  Status run() {
    INVARIANT(file_.tensors_.empty() && reader_.offset() == 0, "a header is read once");
    TRY(const Counts counts, read_header());
    file_.key_values_.begin = reader_.offset();
    for (std::uint64_t i = 0; i < counts.values; ++i) TRY_VOID(read_key_value(i));
    file_.key_values_.end = reader_.offset();
    file_.tensors_.reserve(counts.tensors);
    for (std::uint64_t i = 0; i < counts.tensors; ++i) TRY_VOID(read_tensor(i));
    INVARIANT(file_.tensors_.size() == counts.tensors && records_at_.size() == counts.tensors,
              "every record is a tensor");
    INVARIANT(array_items_ <= limits::kGgufArrayItems, "arrays keep their limit");
    return place_tensors();
  }

 private:
  struct Counts {
    std::uint64_t tensors = 0;
    std::uint64_t values = 0;
  };

  Result<Counts> read_header() {
    TRY(const std::uint32_t magic, read_number<std::uint32_t>("the magic number"));
    if (magic != kGgufMagic) return bad("the file does not begin with the letters GGUF");
    TRY(const std::uint32_t version, read_number<std::uint32_t>("the version"));
    TRY_VOID(check_version(version));
    Counts counts;
    TRY(counts.tensors, read_number<std::uint64_t>("the number of tensors"));
    TRY(counts.values, read_number<std::uint64_t>("the number of keys"));
    TRY_VOID(check_count(counts.values, kMinimumValueBytes, limits::kGgufKeyValues, "keys"));
    TRY_VOID(check_count(counts.tensors, kMinimumTensorBytes, limits::kGgufTensors, "tensors"));
    return counts;
  }

  Status check_version(std::uint32_t version) const {
    if (version == 2 || version == 3) return ok_status();
    const std::uint32_t swapped = __builtin_bswap32(version);
    if (swapped == 2 || swapped == 3) {
      return error(ErrorCode::kUnsupported,
                   "version " + number(swapped) +
                       " in big-endian byte order; only little-endian files "
                       "are read");
    }
    return error(ErrorCode::kUnsupported,
                 "version " + number(version) + "; versions 2 and 3 are read");
  }

  Status check_count(std::uint64_t count, std::uint64_t minimum_bytes, std::uint64_t limit,
                     std::string_view what) const {
    const std::string says =
        "the file says that it holds " + number(count) + " " + std::string(what);
    if (count > limit) return bad(says + ", more than the limit of " + number(limit));
    if (count > reader_.remaining() / minimum_bytes) {
      return bad(says + " of at least " + number(minimum_bytes) + " bytes each, but " +
                 number(reader_.remaining()) + " bytes are left");
    }
    return ok_status();
  }

  Status read_key_value(std::uint64_t index) {
    subject_ = "key " + number(index);
    subject_at_ = reader_.offset();
    TRY(const std::string_view key, read_name("the key's name", limits::kGgufKeyBytes));
    subject_ = "key " + quote(key);
    if (file_.values_.count(key) != 0) return bad("the key occurs twice");
    TRY(const std::uint32_t type, read_number<std::uint32_t>("the value's type"));
    TRY(GgufValue value, read_value(type));
    if (key == "general.alignment") TRY_VOID(read_alignment(type, value));
    if (is_part_key(key)) file_.part_key_values_.push_back({subject_at_, reader_.offset()});
    file_.values_.emplace(key, std::move(value));
    return ok_status();
  }

  Result<std::string_view> read_name(std::string_view what, std::size_t limit) {
    TRY(const std::string_view name, read_string(what, limit));
    if (name.empty()) return bad(std::string(what) + " is empty");
    if (has_control_bytes(name)) {
      return bad(std::string(what) + " " + quote(name) + " has a NUL or another control character");
    }
    if (!is_utf8(name)) return bad(std::string(what) + " " + quote(name) + " is not valid UTF-8");
    return name;
  }

  Result<std::string_view> read_string(std::string_view what, std::size_t limit) {
    TRY(const std::uint64_t length, read_number<std::uint64_t>(what));
    if (length > limit) {
      return bad(std::string(what) + " of " + number(length) +
                 " bytes is longer than the limit of " + number(limit));
    }
    if (length > reader_.remaining()) return cut_off(what, length);
    return as_text(reader_.take(length));
  }

  Status read_alignment(std::uint32_t type, const GgufValue& value) {
    if (type != kU32) {
      return bad("the alignment has value type " + number(type) + ", it must be a uint32 (4)");
    }
    const std::uint64_t alignment = std::get<std::uint64_t>(value);
    if (!std::has_single_bit(alignment) || alignment < limits::kGgufAlignmentMin ||
        alignment > limits::kGgufAlignmentMax) {
      return bad("an alignment of " + number(alignment) + "; it must be a power of two from " +
                 number(limits::kGgufAlignmentMin) + " to " + number(limits::kGgufAlignmentMax));
    }
    file_.alignment_ = alignment;
    return ok_status();
  }

  Result<GgufValue> read_value(std::uint32_t type) {
    if (type == kArray) return read_array();
    if (type == kString) {
      TRY(const std::string_view text, read_string("the string", limits::kGgufStringBytes));
      return GgufValue(std::string(text));
    }
    const std::uint64_t bytes = value_bytes(type);
    if (bytes == 0) return bad("value type " + number(type) + " does not exist (0 to 12 do)");
    if (bytes > reader_.remaining()) return cut_off("the value", bytes);
    return read_scalar(type);
  }

  // The caller has checked that the value is whole.
  Result<GgufValue> read_scalar(std::uint32_t type) {
    switch (type) {
      case kU8: return GgufValue(std::uint64_t{reader_.read<std::uint8_t>()});
      case kU16: return GgufValue(std::uint64_t{reader_.read<std::uint16_t>()});
      case kU32: return GgufValue(std::uint64_t{reader_.read<std::uint32_t>()});
      case kU64: return GgufValue(reader_.read<std::uint64_t>());
      case kI8: return GgufValue(std::int64_t{reader_.read<std::int8_t>()});
      case kI16: return GgufValue(std::int64_t{reader_.read<std::int16_t>()});
      case kI32: return GgufValue(std::int64_t{reader_.read<std::int32_t>()});
      case kI64: return GgufValue(reader_.read<std::int64_t>());
      case kF32: return GgufValue(double{reader_.read<float>()});
      case kF64: return GgufValue(reader_.read<double>());
      default: break;
    }
    const auto flag = reader_.read<std::uint8_t>();
    if (flag > 1) return bad("a bool of " + number(flag) + "; it must be 0 or 1");
    return GgufValue(flag == 1);
  }

  Result<GgufValue> read_array() {
    TRY(const std::uint32_t type, read_number<std::uint32_t>("the type of the array's items"));
    TRY(const std::uint64_t count, read_number<std::uint64_t>("the number of items"));
    if (type == kArray) return bad("an array of arrays; only flat arrays are read");
    const std::uint64_t bytes = value_bytes(type);
    if (bytes == 0) return bad("item type " + number(type) + " does not exist (0 to 12 do)");
    if (count > limits::kGgufArrayItems - array_items_) {
      return bad("an array of " + number(count) + " items, after " + number(array_items_) +
                 " in other arrays; the limit is " + number(limits::kGgufArrayItems) +
                 " in a file");
    }
    if (count > reader_.remaining() / bytes) {
      return bad("an array of " + number(count) + " items of at least " + number(bytes) +
                 " bytes each, but " + number(reader_.remaining()) + " bytes are left");
    }
    array_items_ += count;
    switch (type) {
      case kU8: return read_numbers<std::uint8_t, std::uint64_t>(count);
      case kU16: return read_numbers<std::uint16_t, std::uint64_t>(count);
      case kU32: return read_numbers<std::uint32_t, std::uint64_t>(count);
      case kU64: return read_numbers<std::uint64_t, std::uint64_t>(count);
      case kI8: return read_numbers<std::int8_t, std::int64_t>(count);
      case kI16: return read_numbers<std::int16_t, std::int64_t>(count);
      case kI32: return read_numbers<std::int32_t, std::int64_t>(count);
      case kI64: return read_numbers<std::int64_t, std::int64_t>(count);
      case kF32: return read_numbers<float, double>(count);
      case kF64: return read_numbers<double, double>(count);
      case kString: return read_strings(count);
      default: return read_bools(count);
    }
  }

  Result<GgufValue> read_strings(std::uint64_t count) {
    std::vector<std::string_view> items;
    items.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      TRY(const std::string_view item, read_string("an item", limits::kGgufStringBytes));
      items.push_back(item);
    }
    return GgufValue(GgufArray{std::move(items)});
  }

  Result<GgufValue> read_bools(std::uint64_t count) {
    std::vector<bool> items(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto flag = reader_.read<std::uint8_t>();
      if (flag > 1) {
        return bad("item " + number(i) + " is a bool of " + number(flag) + "; it must be 0 or 1");
      }
      items[i] = flag == 1;
    }
    return GgufValue(GgufArray{std::move(items)});
  }

  template <typename Stored, typename Wide>

  GgufValue read_numbers(std::uint64_t count) {
    std::vector<Wide> items(count);
    for (Wide& item : items) item = static_cast<Wide>(reader_.read<Stored>());
    return GgufArray{std::move(items)};
  }

  Status read_tensor(std::uint64_t index) {
    subject_ = "tensor " + number(index);
    subject_at_ = reader_.offset();
    TRY(const std::string_view name, read_name("the tensor's name", limits::kGgufTensorNameBytes));
    subject_ = "tensor " + quote(name);
    if (name.find_first_of("/\\") != std::string_view::npos) {
      return bad("the name has a path separator");
    }
    if (!file_.tensor_index_.emplace(name, index).second) return bad("the name occurs twice");

    TensorInfo tensor;
    tensor.name = name;
    TRY_VOID(read_dims(tensor));
    TRY(const std::uint32_t type, read_number<std::uint32_t>("the tensor's type"));
    TRY(tensor.offset, read_number<std::uint64_t>("the tensor's offset"));
    const TensorTypeInfo* info = tensor_type_info(type);
    if (info == nullptr) {
      return error(ErrorCode::kUnsupported,
                   "tensors of " + tensor_type_name(type) + " are not read");
    }
    tensor.type = static_cast<TensorType>(type);
    TRY_VOID(size_tensor(tensor, *info));
    file_.tensors_.push_back(std::move(tensor));
    records_at_.push_back(subject_at_);
    return ok_status();
  }

  Status read_dims(TensorInfo& tensor) {
    TRY(const std::uint32_t count, read_number<std::uint32_t>("the number of dimensions"));
    if (count == 0 || count > limits::kGgufDims) {
      return bad(number(count) + " dimensions; there must be 1 to " + number(limits::kGgufDims));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      TRY(const std::uint64_t dim, read_number<std::uint64_t>("a dimension"));
      if (dim == 0) return bad("dimension " + number(i) + " is 0");
      tensor.dims.push_back(dim);
    }
    return ok_status();
  }

  // Elements and bytes are multiplied up factor by factor; no product is formed unchecked.
  Status size_tensor(TensorInfo& tensor, const TensorTypeInfo& type) const {
    if (tensor.dims[0] % type.block_elements != 0) {
      return bad("rows of " + number(tensor.dims[0]) + " elements must be a multiple of the " +
                 number(type.block_elements) + " that a block of " + std::string(type.name) +
                 " has");
    }
    std::uint64_t elements = 1;
    std::uint64_t bytes = tensor.dims[0] / type.block_elements;
    bool fits = checked_multiply(bytes, type.block_bytes);
    for (std::size_t i = 0; fits && i < tensor.dims.size(); ++i) {
      fits = checked_multiply(elements, tensor.dims[i]) &&
             (i == 0 || checked_multiply(bytes, tensor.dims[i]));
    }
    if (!fits) return bad("the product of its dimensions leaves 64 bits");
    tensor.bytes = bytes;
    return ok_status();
  }

  // Tensors lie one after another in the order of their records, each begun at the alignment: then
  // tensors do not overlap, lie inside the file, and leave no byte between them.
  Status place_tensors() {
    const std::uint64_t size = file_.file_bytes_;
    std::uint64_t data = reader_.offset();
    std::uint64_t next = 0;  // relative to the data, like the offsets in the file
    std::uint64_t end = data;
    bool fits = checked_align(data, file_.alignment_);
    file_.header_bytes_ = std::min(data, size);
    if (file_.header_bytes_ > file_.bytes_.size()) {
      return bad("the header takes " + number(file_.header_bytes_) + " bytes, but " +
                 number(file_.bytes_.size()) + " are here");
    }
    for (std::size_t i = 0; i < file_.tensors_.size(); ++i) {
      TensorInfo& tensor = file_.tensors_[i];
      subject_ = "tensor " + quote(tensor.name);
      subject_at_ = records_at_[i];
      if (tensor.offset % file_.alignment_ != 0) {
        return bad("offset " + number(tensor.offset) + " must be a multiple of the alignment " +
                   number(file_.alignment_));
      }
      if (tensor.offset != next) {
        return bad("offset " + number(tensor.offset) + " must be " + number(next) +
                   ", where the tensor before it ends (overlap, gap or wrong order)");
      }
      fits = fits && checked_add(tensor.offset, data);
      tensor.part_offset = tensor.offset;
      end = tensor.offset;
      fits = fits && checked_add(end, tensor.bytes);
      if (!fits || end > size) {
        return bad("its " + number(tensor.bytes) + " bytes at offset " + number(next) +
                   " reach past the end of the file (" + number(size) + " bytes, data from byte " +
                   number(data) + ")");
      }
      fits = checked_add(next, tensor.bytes) && checked_align(next, file_.alignment_);
    }
    TRY_VOID(check_tail(end));
    Blake2b hash;
    hash.update(file_.header());
    hash.update(std::as_bytes(std::span(&size, 1)));
    file_.fingerprint_ = hash.finish();
    return ok_status();
  }

  // Writers pad the last tensor (or a header without tensors) with zeros to the alignment. Any
  // other byte there is damage or hidden data. When only the header is read, these bytes are
  // absent.
  Status check_tail(std::uint64_t end) {
    subject_ = "end of the data";
    subject_at_ = end;
    INVARIANT(end <= file_.file_bytes_, "tensors end inside the file");
    std::uint64_t padded = end;
    if (!checked_align(padded, file_.alignment_)) padded = end;
    const std::uint64_t after = file_.file_bytes_ - end;
    if (after > padded - end) {
      return bad(number(after) + " bytes follow the last tensor, more than the " +
                 number(padded - end) + " that pad it to the alignment " +
                 number(file_.alignment_));
    }
    const ByteSpan tail = file_.bytes_.subspan(std::min<std::uint64_t>(end, file_.bytes_.size()));
    const auto stray =
        std::find_if(tail.begin(), tail.end(), [](std::byte byte) { return byte != std::byte{0}; });
    if (stray != tail.end()) {
      return bad("byte " + number(end + static_cast<std::uint64_t>(stray - tail.begin())) +
                 " behind the last tensor is " + number(std::to_integer<unsigned>(*stray)) +
                 "; padding is zeros");
    }
    return ok_status();
  }

  // The next number, or an error that names the field that was cut off.
  template <typename T>

  Result<T> read_number(std::string_view what) {
    if (reader_.remaining() < sizeof(T)) return cut_off(what, sizeof(T));
    return reader_.read<T>();
  }

  Error cut_off(std::string_view what, std::uint64_t needed) const {
    std::string message = std::string(what) + " takes " + number(needed) + " bytes, but " +
                          number(reader_.remaining()) + " are left at byte " +
                          number(reader_.offset());
    if (file_.bytes_.size() > limits::kGgufHeaderBytes) {
      message += " of the " + number(limits::kGgufHeaderBytes) + " that a header may take";
    }
    return bad(std::move(message));
  }

  Error bad(std::string message) const {
    return error(ErrorCode::kInvalidInput, std::move(message));
  }

  Error error(ErrorCode code, std::string message) const {
    return {code, quote(file_.path_) + ": " + subject_ + " at byte " + number(subject_at_) + ": " +
                      std::move(message)};
  }

  GgufFile& file_;
  ByteReader reader_;
  std::string subject_ = "header";       // what is being read, for errors: "key 'general.name'"
  std::size_t subject_at_ = 0;           // byte that it starts at
  std::vector<std::size_t> records_at_;  // bytes that the tensors' records start at
  std::uint64_t array_items_ = 0;
};

static_assert(limits::kGgufTensors <= ~std::uint32_t{0} && limits::kGgufKeyValues > 0,
              "counts are checked against their limits before memory is taken");

Status GgufFile::read_header() { return GgufParser(*this).run(); }

}  // namespace hearth::model
