#include "model/gguf/manifest.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/limits.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

constexpr std::string_view kManifestMagic = "HearthM2";
constexpr std::size_t kHashStep = 4 * limits::kMiB;  // between two reports of progress
constexpr std::size_t kTensorBytesMin = 2 + 1 + 8 + 8 + 32;

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

void write_hash(ByteWriter& out, const Hash256& hash) { out.append(hash.bytes); }

Hash256 read_hash(ByteReader& in) {
  Hash256 hash;
  const ByteSpan bytes = in.take(hash.bytes.size());
  if (!bytes.empty()) std::copy(bytes.begin(), bytes.end(), hash.bytes.begin());
  return hash;
}

void write_file(const Manifest& manifest, ByteWriter& out) {
  out.append(as_bytes(kManifestMagic));
  out.write(manifest.file_bytes);
  out.write(manifest.header_bytes);
  write_hash(out, manifest.header_sha256);
  out.write(static_cast<std::uint32_t>(manifest.tensors.size()));
  for (const ManifestTensor& tensor : manifest.tensors) {
    out.write(static_cast<std::uint16_t>(tensor.name.size()));
    out.append(as_bytes(tensor.name));
    out.write(tensor.offset);
    out.write(tensor.bytes);
    write_hash(out, tensor.sha256);
  }
}

void write_cluster(const Manifest& manifest, ByteWriter& out) {
  out.write(manifest.number);
  out.write(static_cast<std::uint8_t>(manifest.sources.size()));
  for (const std::string& source : manifest.sources) {
    out.write(static_cast<std::uint16_t>(source.size()));
    out.append(as_bytes(source));
  }
}

// check() validates their number and lengths; the one-byte and two-byte fields bound them well
// enough for reading.
Status read_cluster(ByteReader& in, Manifest& manifest) {
  manifest.number = in.read<std::uint64_t>();
  const auto sources = in.read<std::uint8_t>();
  for (std::uint8_t i = 0; i < sources && !in.failed(); ++i) {
    manifest.sources.emplace_back(as_text(in.take(in.read<std::uint16_t>())));
  }
  REQUIRE(!in.failed(), "manifest: the bytes end inside the sources");
  return ok_status();
}

Result<ManifestTensor> read_tensor(ByteReader& in, std::uint32_t index) {
  const std::string which = message_of("manifest: tensor ", index, " at byte ", in.offset());
  ManifestTensor tensor;
  const auto length = in.read<std::uint16_t>();
  REQUIRE(length <= limits::kGgufTensorNameBytes, which, ": its name has ", length,
          " bytes, at most ", limits::kGgufTensorNameBytes);
  tensor.name = std::string(as_text(in.take(length)));
  tensor.offset = in.read<std::uint64_t>();
  tensor.bytes = in.read<std::uint64_t>();
  tensor.sha256 = read_hash(in);
  REQUIRE(!in.failed(), which, ": the bytes end inside it");
  return tensor;
}

// They are dialled and shown.
Status check_sources(const std::vector<std::string>& sources) {
  REQUIRE(sources.size() <= limits::kManifestSources, "manifest: ", sources.size(),
          " sources, at most ", limits::kManifestSources);
  for (const std::string& source : sources) {
    REQUIRE(!source.empty() && source.size() <= limits::kSourceBytes && is_printable(source),
            "manifest: source ", quote(source), " has to be 1 to ", limits::kSourceBytes,
            " bytes of printable ASCII");
  }
  return ok_status();
}

class Hasher {
 public:
  explicit Hasher(const std::function<bool(std::uint64_t)>& progress) : progress_(progress) {}
  Result<Hash256> hash(ByteSpan bytes) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += kHashStep) {
      const ByteSpan step = bytes.subspan(at, std::min(kHashStep, bytes.size() - at));
      hash.update(step);
      done_ += step.size();
      if (progress_ && !progress_(done_)) return Error{ErrorCode::kCancelled, "interrupted"};
    }
    return hash.finish();
  }

 private:
  const std::function<bool(std::uint64_t)>& progress_;
  std::uint64_t done_ = 0;
};

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

bool is_head(std::string_view tensor) { return tensor == kHead || tensor == "output_norm.weight"; }

// Whether the inputs of layers are made of the tensor, by the stage with the embedding.
bool is_layer_input(std::string_view tensor) { return tensor.starts_with("per_layer_"); }

}  // namespace

std::optional<std::uint32_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  if (!whole || layer >= limits::kModelLayers) return std::nullopt;
  return layer;
}

Hash256 Manifest::id() const {
  Bytes bytes;
  ByteWriter out(bytes);
  write_file(*this, out);
  return blake2b(bytes);
}

Status Manifest::check() const {
  REQUIRE(file_bytes <= limits::kModelFileBytes, "manifest: file bytes ", file_bytes, ", at most ",
          limits::kModelFileBytes);
  REQUIRE(
      header_bytes > 0 && header_bytes <= limits::kGgufHeaderBytes && header_bytes <= file_bytes,
      "manifest: header bytes ", header_bytes, ", 1 to ", limits::kGgufHeaderBytes,
      " and no more than the file has");
  REQUIRE(tensors.size() <= limits::kGgufTensors, "manifest: ", tensors.size(),
          " tensors, at most ", limits::kGgufTensors);
  std::set<std::string_view> names;
  std::uint64_t end = header_bytes;
  for (const ManifestTensor& tensor : tensors) {
    const std::string which = "manifest: tensor " + quote(tensor.name);
    REQUIRE(!tensor.name.empty() && tensor.name.size() <= limits::kGgufTensorNameBytes, which,
            ": a name has 1 to ", limits::kGgufTensorNameBytes, " bytes");
    if (!is_printable(tensor.name)) {
      return Error::of(ErrorCode::kUnsupported, which, ": its name is not printable ASCII");
    }
    REQUIRE(names.insert(tensor.name).second, which, " is there twice");
    REQUIRE(tensor.offset >= end, which, " begins at ", tensor.offset,
            ", before the end of the tensor before it at ", end);
    REQUIRE(tensor.bytes > 0 && tensor.offset <= file_bytes &&
                tensor.bytes <= file_bytes - tensor.offset,
            which, " has ", tensor.bytes, " bytes at ", tensor.offset, " of a file of ",
            file_bytes);
    end = tensor.offset + tensor.bytes;
  }
  return check_sources(sources);
}

Result<Manifest> make_manifest(const GgufFile& file,
                               const std::function<bool(std::uint64_t)>& progress) {
  Manifest manifest;
  manifest.file_bytes = file.file_bytes();
  manifest.header_bytes = file.header().size();
  for (const TensorInfo& tensor : file.tensors()) {
    manifest.tensors.push_back({tensor.name, tensor.offset, tensor.bytes, {}});
  }
  // A file without tensors has no other bytes.
  INVARIANT(!manifest.tensors.empty() || manifest.header_bytes == manifest.file_bytes,
            "nothing lies behind the header and the tensors");
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  TRY_VOID(manifest.check());
  Hasher hasher(progress);
  TRY(manifest.header_sha256, hasher.hash(file.header()));
  for (ManifestTensor& tensor : manifest.tensors) {
    TRY(tensor.sha256, hasher.hash(file.tensor_bytes(*file.find_tensor(tensor.name))));
  }
  return manifest;
}

static_assert(limits::kGgufTensorNameBytes <= 0xffff && limits::kSourceBytes <= 0xffff &&
                  kSignatureBytes <= 0xffff && limits::kManifestSources <= 0xff,
              "lengths fit the fields of the format");

Bytes encode_manifest(const Manifest& manifest, const Signer& signer) {
  INVARIANT(manifest.tensors.size() <= ~std::uint32_t{0} && manifest.sources.size() <= 0xff,
            "counts fit the fields of the format");
  Bytes bytes;
  ByteWriter out(bytes);
  write_file(manifest, out);
  write_cluster(manifest, out);
  const Bytes signature = signer ? signer(bytes) : Bytes();
  INVARIANT(signature.size() <= kSignatureBytes, "a signature is short");
  out.write(static_cast<std::uint16_t>(signature.size()));
  out.append(signature);
  return bytes;
}

Result<Manifest> parse_manifest(ByteSpan bytes, const SignatureCheck& check) {
  REQUIRE(bytes.size() <= limits::kManifestBytes, "manifest: ", bytes.size(), " bytes, at most ",
          limits::kManifestBytes);
  ByteReader in(bytes);
  REQUIRE(as_text(in.take(kManifestMagic.size())) == kManifestMagic,
          "manifest: the first bytes are not those of a manifest");
  Manifest manifest;
  manifest.file_bytes = in.read<std::uint64_t>();
  manifest.header_bytes = in.read<std::uint64_t>();
  manifest.header_sha256 = read_hash(in);
  const auto tensors = in.read<std::uint32_t>();
  REQUIRE(!in.failed() && tensors <= in.remaining() / kTensorBytesMin, "manifest: ", tensors,
          " tensors do not fit in the bytes that are left");
  manifest.tensors.reserve(tensors);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    TRY(manifest.tensors.emplace_back(), read_tensor(in, i));
  }
  TRY_VOID(read_cluster(in, manifest));
  const ByteSpan body = bytes.first(in.offset());
  const auto length = in.read<std::uint16_t>();
  const ByteSpan signature = in.take(length);
  REQUIRE(!in.failed() && in.remaining() == 0 && length <= kSignatureBytes,
          "manifest: its signature at byte ", body.size(), " does not end with the file");
  if (check && !check(body, signature)) {
    return Error{ErrorCode::kRefused, "manifest: no trusted key has signed it"};
  }
  TRY_VOID(manifest.check());
  return manifest;
}

std::uint32_t layer_count(const Manifest& manifest) {
  std::uint32_t count = 0;
  std::uint32_t end = limits::kModelLayers;  // the first layer that predicts tokens further on
  for (const ManifestTensor& tensor : manifest.tensors) {
    const auto layer = layer_of(tensor.name);
    if (!layer) continue;
    count = std::max(count, *layer + 1);
    if (tensor.name.ends_with(kPredictionMark)) end = std::min(end, *layer);
  }
  return std::min(count, end);
}

bool is_common(std::string_view tensor) {
  return !layer_of(tensor) && tensor != kEmbedding && !is_layer_input(tensor) && !is_head(tensor);
}

Result<std::vector<std::size_t>> stage_tensors(const Manifest& manifest, LayerRange layers) {
  const std::uint32_t count = layer_count(manifest);
  REQUIRE(layers.begin < layers.end && layers.end <= count, "layers ", text_of(layers),
          ": the model has ", count, " layers, 0-", std::max(count, 1U) - 1);
  const bool first = layers.begin == 0;
  const bool last = layers.end == count;
  const bool tied = std::none_of(manifest.tensors.begin(), manifest.tensors.end(),
                                 [](const auto& each) { return each.name == kHead; });
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const std::string& name = manifest.tensors[i].name;
    const auto layer = layer_of(name);
    bool needed = true;
    if (layer) needed = *layer >= layers.begin && *layer < layers.end;
    if (name == kEmbedding) needed = first || (last && tied);
    if (is_layer_input(name)) needed = first;
    if (is_head(name)) needed = last;
    if (needed) wanted.push_back(i);
  }
  return wanted;
}

}  // namespace hearth::model
