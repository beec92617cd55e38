#include "model/gguf/parts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/number.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kBetween = "-of-";
constexpr std::size_t kPartDigits = 5;
constexpr std::size_t kEndBytes = 1 + kPartDigits + kBetween.size() + kPartDigits + kSuffix.size();

using Parts = std::vector<std::shared_ptr<const GgufFile>>;

std::string text(std::uint64_t value) { return std::to_string(value); }

std::string key_is(const GgufFile& file, std::string_view key, std::uint64_t value) {
  return quote(file.path()) + ": key " + quote(key) + " is " + text(value);
}

std::string end_of(PartPlace place) {
  std::array<char, kEndBytes + 1> end{};
  std::snprintf(end.data(), end.size(), "-%05u-of-%05u.gguf", place.number, place.count);
  return end.data();
}

// Checks that this is the expected part, and that its keys are of the same model.
Status check_part(const GgufFile& first, const GgufFile& part, PartPlace place) {
  TRY(const std::uint64_t number, part.get_uint(kNumberKey));
  TRY(const std::uint64_t count, part.get_uint(kCountKey));
  TRY(const std::uint64_t tensors, part.get_uint(kTensorsKey));
  TRY(const std::uint64_t wanted, first.get_uint(kTensorsKey));
  const std::string here = "part " + text(place.number) + " of " + text(place.count);
  REQUIRE(count == place.count, key_is(part, kCountKey, count), ", but it is used as ", here,
          "; it is a part of another model");
  REQUIRE(number + 1 == place.number, key_is(part, kNumberKey, number), ", so it is part ",
          text(number + 1), ", but it is used as ", here,
          "; the parts are swapped or one is there twice");
  REQUIRE(tensors == wanted, key_is(part, kTensorsKey, tensors), ", but part 1 says ", text(wanted),
          "; it is a part of another model");
  return ok_status();
}

// Checks that every tensor is present exactly once.
Status check_tensors(const Parts& parts) {
  std::map<std::string_view, std::size_t> parts_by_tensor;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const TensorInfo& tensor : parts[i]->tensors()) {
      const auto [before, is_new] = parts_by_tensor.emplace(tensor.name, i);
      REQUIRE(is_new, quote(parts[i]->path()), ": tensor ", quote(tensor.name), " is in part ",
              text(before->second + 1), " and in part ", text(i + 1),
              "; a part is there twice or of another model");
    }
  }
  TRY(const std::uint64_t wanted, parts.front()->get_uint(kTensorsKey));
  REQUIRE(parts_by_tensor.size() == wanted, key_is(*parts.front(), kTensorsKey, wanted),
          ", but the ", text(parts.size()), " parts have ", text(parts_by_tensor.size()),
          " tensors; a part is of another model");
  return ok_status();
}

void write_record(ByteWriter& out, const TensorInfo& tensor, std::uint64_t offset) {
  out.write(std::uint64_t{tensor.name.size()});
  out.append(as_bytes(tensor.name));
  out.write(static_cast<std::uint32_t>(tensor.dims.size()));
  for (const std::uint64_t dim : tensor.dims) out.write(dim);
  out.write(static_cast<std::uint32_t>(tensor.type));
  out.write(offset);
}

// The end of this many bytes at `offset`, rounded up to the alignment; nothing when it exceeds 64
// bits.
std::optional<std::uint64_t> aligned_end(std::uint64_t offset, std::uint64_t bytes,
                                         std::uint64_t alignment) {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end) ||
      __builtin_add_overflow(end, alignment - 1, &end)) {
    return std::nullopt;
  }
  return end & ~(alignment - 1);
}

}  // namespace

static_assert(limits::kGgufTensors < ~std::uint32_t{0} && limits::kGgufParts < 100'000,
              "part numbers have five digits, and tensor counts fit the key");

bool is_part_key(std::string_view key) {
  return key == kNumberKey || key == kCountKey || key == kTensorsKey;
}

Result<std::optional<PartPlace>> part_of(const GgufFile& file) {
  if (file.find(kCountKey) == nullptr) return std::optional<PartPlace>();
  TRY(const std::uint64_t count, file.get_uint(kCountKey));
  if (count <= 1) return std::optional<PartPlace>();
  REQUIRE(count <= limits::kGgufParts, key_is(file, kCountKey, count), "; a model has at most ",
          text(limits::kGgufParts), " parts");
  TRY(const std::uint64_t number, file.get_uint(kNumberKey));
  REQUIRE(number < count, key_is(file, kNumberKey, number), "; it must be less than ",
          quote(kCountKey), ", which is ", text(count));
  return std::optional<PartPlace>(
      {static_cast<std::uint32_t>(number + 1), static_cast<std::uint32_t>(count)});
}

std::string PartName::of(std::uint32_t number) const {
  return stem + end_of({number, place.count});
}

std::optional<PartName> part_name(std::string_view name) {
  if (name.size() <= kEndBytes || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view end = name.substr(name.size() - kEndBytes);
  const std::string_view count = end.substr(1 + kPartDigits + kBetween.size(), kPartDigits);
  if (end.front() != '-' || end.substr(1 + kPartDigits, kBetween.size()) != kBetween) {
    return std::nullopt;
  }
  const auto number = parse_number<std::uint32_t>(end.substr(1, kPartDigits));
  const auto of = parse_number<std::uint32_t>(count);
  const bool counts = number && of && *number >= 1 && *number <= *of && *of <= limits::kGgufParts;
  if (!counts) return std::nullopt;
  return PartName{std::string(name.substr(0, name.size() - kEndBytes)), {*number, *of}};
}

std::vector<std::string> all_parts(const std::string& name) {
  const auto named = part_name(name);
  if (!named || named->place.number != 1) return {name};
  std::vector<std::string> names;
  for (std::uint32_t i = 1; i <= named->place.count; ++i) names.push_back(named->of(i));
  return names;
}

Result<std::vector<std::string>> part_paths(const GgufFile& first) {
  TRY(const auto place, part_of(first));
  if (!place) return std::vector<std::string>();
  const auto name = part_name(first.path());
  const std::string is = quote(first.path()) + " is part " + text(place->number) + " of " +
                         text(place->count) + " of a model";
  REQUIRE(name && name->place == *place, is, ", so its name must end with ", end_of(*place),
          ": the other parts are found by it; give all parts their names back");
  REQUIRE(place->number == 1, is, "; name the first part, ", quote(name->of(1)));
  return all_parts(first.path());
}

Status PartBudget::add(const GgufFile& part) {
  const std::uint64_t header = part.header().size();
  REQUIRE(header <= header_room_, quote(part.path()),
          ": with this part the headers of all have more than ", text(limits::kGgufHeaderBytes),
          " bytes");
  header_room_ -= header;
  tensors_ += part.tensors().size();
  REQUIRE(tensors_ <= limits::kGgufTensors, quote(part.path()), ": with this part the model has ",
          text(tensors_), " tensors, more than the limit of ", text(limits::kGgufTensors));
  // Read values take several times the bytes that they have in a header.
  for (const std::string_view key : part.keys()) {
    ++keys_;
    const auto* array = std::get_if<GgufArray>(part.find(key));
    if (array != nullptr) array_items_ += array->size();
  }
  REQUIRE(keys_ <= limits::kGgufKeyValues, quote(part.path()), ": with this part the model has ",
          text(keys_), " keys, more than the limit of ", text(limits::kGgufKeyValues));
  REQUIRE(array_items_ <= limits::kGgufArrayItems, quote(part.path()),
          ": with this part the arrays of all have ", text(array_items_),
          " items, more than the limit of ", text(limits::kGgufArrayItems));
  return ok_status();
}

PartMap::PartMap(const GgufFile& model) : file_bytes_(model.file_bytes()) {
  if (model.parts().empty()) {
    runs_.push_back({0, file_bytes_, 0, 0});
    return;
  }
  header_.assign(model.header().begin(), model.header().end());
  for (const TensorInfo& tensor : model.tensors()) add(tensor);
}

// Tensors of a part lie in it as in the whole, so that most parts are one run.
void PartMap::add(const TensorInfo& tensor) {
  const Run run{tensor.offset, tensor.offset + tensor.bytes, tensor.part, tensor.part_offset};
  if (!runs_.empty()) {
    Run& last = runs_.back();
    INVARIANT(last.end <= run.begin, "tensors come by offset");
    if (last.part == run.part && run.begin - last.begin == run.offset - last.offset) {
      last.end = run.end;
      return;
    }
  }
  runs_.push_back(run);
}

PartMap::Piece PartMap::piece(std::uint64_t begin, std::uint64_t end) const {
  INVARIANT(begin < end && end <= file_bytes_, "the piece lies in the model");
  if (begin < header_.size()) {
    const ByteSpan header = ByteSpan(header_).subspan(begin).first(
        std::min<std::uint64_t>(end, header_.size()) - begin);
    return {header.size(), header, std::nullopt, 0};
  }
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), begin,
                       [](std::uint64_t at, const Run& run) { return at < run.begin; });
  if (after != runs_.begin()) {
    const Run& run = *std::prev(after);
    if (begin < run.end) {
      return {std::min(end, run.end) - begin, {}, run.part, run.offset + (begin - run.begin)};
    }
  }
  return {(after == runs_.end() ? end : std::min(end, after->begin)) - begin, {}, std::nullopt, 0};
}

// Makes a GgufFile of several.
class PartJoiner {
 public:
  static Result<std::shared_ptr<const GgufFile>> join(Parts parts);

 private:
  static Result<std::pair<Bytes, std::uint64_t>> header_of(const Parts& parts);
};

// Writers append the three keys or put them first, and pad every tensor. So the result equals the
// file that was split, to the byte, unless its writer left the last tensor without padding.
Result<std::pair<Bytes, std::uint64_t>> PartJoiner::header_of(const Parts& parts) {
  const GgufFile& first = *parts.front();
  std::uint64_t tensors = 0;
  for (const auto& part : parts) tensors += part->tensors_.size();
  Bytes header;
  ByteWriter out(header);
  out.append(first.bytes_.first(2 * sizeof(std::uint32_t)));  // magic number and version
  out.write(tensors, std::uint64_t{first.values_.size() - first.part_key_values_.size()});
  std::size_t at = first.key_values_.begin;
  for (const auto& record : first.part_key_values_) {
    out.append(first.bytes_.subspan(at, record.begin - at));
    at = record.end;
  }
  out.append(first.bytes_.subspan(at, first.key_values_.end - at));
  std::optional<std::uint64_t> end = 0;
  for (const auto& part : parts) {
    for (const TensorInfo& tensor : part->tensors_) {
      write_record(out, tensor, *end);
      end = aligned_end(*end, tensor.bytes, first.alignment_);
      REQUIRE(end, quote(part->path_), ": tensor ", quote(tensor.name),
              ": the bytes of all parts leave 64 bits");
    }
  }
  header.resize((header.size() + first.alignment_ - 1) / first.alignment_ * first.alignment_);
  REQUIRE(header.size() <= limits::kGgufHeaderBytes, quote(first.path_),
          ": the headers of all parts make one of ", text(header.size()),
          " bytes, more than the limit of ", text(limits::kGgufHeaderBytes));
  const auto bytes = aligned_end(header.size(), *end, first.alignment_);
  REQUIRE(bytes, quote(first.path_), ": the bytes of all parts leave 64 bits");
  return std::pair(std::move(header), *bytes);
}

Result<std::shared_ptr<const GgufFile>> PartJoiner::join(Parts parts) {
  REQUIRE(!parts.empty() && parts.size() <= limits::kGgufParts, "a model has 1 to ",
          text(limits::kGgufParts), " parts, not ", text(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TRY_VOID(
        check_part(*parts.front(), *parts[i],
                   {static_cast<std::uint32_t>(i + 1), static_cast<std::uint32_t>(parts.size())}));
  }
  TRY_VOID(check_tensors(parts));
  std::shared_ptr<GgufFile> joined(new GgufFile);
  joined->path_ = parts.front()->path_;
  TRY(auto header, header_of(parts));
  std::tie(joined->joined_, joined->file_bytes_) = std::move(header);
  joined->bytes_ = joined->joined_;
  TRY_VOID(joined->read_header());
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const TensorInfo& tensor : parts[i]->tensors_) {
      TensorInfo& ours = joined->tensors_[next++];
      INVARIANT(ours.name == tensor.name && ours.bytes == tensor.bytes, "records keep their order");
      ours.part = static_cast<std::uint32_t>(i);
      ours.part_offset = tensor.part_offset;
    }
  }
  INVARIANT(next == joined->tensors_.size(), "every tensor lies in a part");
  joined->parts_ = std::move(parts);
  return std::shared_ptr<const GgufFile>(std::move(joined));
}

Result<std::shared_ptr<const GgufFile>> join_parts(Parts parts) {
  return PartJoiner::join(std::move(parts));
}

}  // namespace hearth::model
