#include "model/gguf/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"
#include "model/synthetic.h"

namespace hearth::model {
namespace {

Bytes sign(ByteSpan message) {
  const Hash256 hash = keyed_blake2b(blake2b(as_bytes("key")), message);
  return {hash.bytes.begin(), hash.bytes.end()};
}
bool signed_by_us(ByteSpan message, ByteSpan signature) {
  const Bytes right = sign(message);
  return std::equal(right.begin(), right.end(), signature.begin(), signature.end());
}

struct ManifestTest : ::testing::Test {
  Bytes bytes = synthetic_model_bytes({}).value();
  std::shared_ptr<const GgufFile> file = GgufFile::parse(bytes, "tiny").value();
  Manifest manifest = make_manifest(*file, {}).value();

  std::string refusal(const Manifest& wrong) {
    const auto parsed = parse_manifest(encode_manifest(wrong, {}), {});
    return parsed.ok() ? "" : parsed.error().message;
  }
};

TEST_F(ManifestTest, HoldsEveryTensorAndItsHash) {
  EXPECT_EQ(manifest.file_bytes, bytes.size());
  ASSERT_EQ(manifest.tensors.size(), file->tensors().size());
  Sha256 header;
  header.update(ByteSpan(bytes).first(manifest.header_bytes));
  EXPECT_EQ(manifest.header_sha256, header.finish());
  for (const ManifestTensor& tensor : manifest.tensors) {
    const TensorInfo* info = file->find_tensor(tensor.name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(tensor.offset, info->offset);
    EXPECT_EQ(tensor.bytes, info->bytes);
    EXPECT_GE(tensor.offset, manifest.header_bytes);
    Sha256 hash;
    hash.update(file->tensor_bytes(*info));
    EXPECT_EQ(tensor.sha256, hash.finish());
  }
}

TEST_F(ManifestTest, ReadsBackWhatItWrote) {
  EXPECT_EQ(parse_manifest(encode_manifest(manifest, {}), {}).value(), manifest);
  EXPECT_EQ(parse_manifest(encode_manifest(manifest, sign), {}).value(), manifest);
  EXPECT_EQ(parse_manifest(encode_manifest(manifest, sign), signed_by_us).value(), manifest);
  Manifest other = manifest;
  other.tensors[3].sha256.bytes[0] ^= std::byte{1};
  EXPECT_NE(other.id(), manifest.id());
  Manifest published = manifest;
  published.number = 7;
  published.sources = {"https://example.org/model.gguf", "hf:org/repo/file@main"};
  EXPECT_EQ(parse_manifest(encode_manifest(published, sign), signed_by_us).value(), published);
  EXPECT_EQ(published.id(), manifest.id()) << "of the same file";
}

TEST_F(ManifestTest, ASignatureIsOverEveryByte) {
  EXPECT_EQ(parse_manifest(encode_manifest(manifest, {}), signed_by_us).error().code,
            ErrorCode::kRefused);
  const Bytes good = encode_manifest(manifest, sign);
  for (std::size_t at = 0; at < good.size(); at += 7) {
    Bytes wrong = good;
    wrong[at] ^= std::byte{0x10};
    EXPECT_FALSE(parse_manifest(wrong, signed_by_us).ok()) << at;
  }
}

TEST_F(ManifestTest, EveryCutIsRefused) {
  const Bytes good = encode_manifest(manifest, sign);
  for (std::size_t size = 0; size < good.size(); ++size) {
    ASSERT_FALSE(parse_manifest(ByteSpan(good).first(size), {}).ok()) << size;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_manifest(longer, {}).ok());
  EXPECT_FALSE(parse_manifest(Bytes(limits::kManifestBytes + 1), {}).ok());
}

TEST_F(ManifestTest, SaysWhatIsWrong) {
  const auto with = [this](auto change) {
    Manifest wrong = manifest;
    change(wrong);
    return refusal(wrong);
  };
  const auto names = [](const std::string& message, const char* what) {
    return message.find(what) != std::string::npos;
  };
  EXPECT_EQ(refusal(manifest), "");
  EXPECT_TRUE(names(with([](Manifest& m) { m.header_bytes = 0; }), "header bytes"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.header_bytes = ~0ULL; }), "header bytes"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.file_bytes = ~0ULL; }), "file bytes"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.file_bytes -= 64; }), "of a file of"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].offset = ~0ULL; }), "of a file of"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors.back().bytes = ~0ULL; }), "of a file of"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].bytes = 0; }), "0 bytes"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].offset = m.tensors[0].offset; }),
                    "before the end"));
  EXPECT_TRUE(
      names(with([](Manifest& m) { std::swap(m.tensors[0], m.tensors[1]); }), "before the end"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].name = m.tensors[0].name; }), "twice"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].name = ""; }), "1 to 63"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].name = std::string(64, 'a'); }), "63"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].name = "a\nb"; }), "printable"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.tensors[1].name = "a b"; }), "printable"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.sources.assign(9, "x"); }), "9 sources"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.sources = {""}; }), "source"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.sources = {"a\x1b[2J"}; }), "printable"));
  EXPECT_TRUE(names(with([](Manifest& m) { m.sources = {std::string(2049, 'a')}; }), "2048"));
}

TEST_F(ManifestTest, ACountIsNoReasonToAllocate) {
  Bytes bytes = encode_manifest(manifest, {});
  constexpr std::size_t kCountAt = 8 + 8 + 8 + 32;
  for (std::size_t i = 0; i < 4; ++i) bytes[kCountAt + i] = std::byte{0xFF};
  EXPECT_NE(parse_manifest(bytes, {}).error().message.find("4294967295"), std::string::npos);
}

TEST_F(ManifestTest, HashingCanBeStopped) {
  EXPECT_EQ(make_manifest(*file, [](std::uint64_t) { return false; }).error().code,
            ErrorCode::kCancelled);
}

TEST_F(ManifestTest, AStageNamesItsLayers) {
  EXPECT_EQ(layer_count(manifest), 4U);
  const auto beyond = stage_tensors(manifest, {0, 5});
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().message, "layers 0-4: the model has 4 layers, 0-3");
  EXPECT_FALSE(stage_tensors(manifest, {2, 2}).ok());
  EXPECT_FALSE(stage_tensors(manifest, {3, 2}).ok());
  EXPECT_EQ(stage_tensors(manifest, {0, 4})->size(), manifest.tensors.size());
  const std::vector<std::size_t> middle = *stage_tensors(manifest, {1, 3});
  EXPECT_FALSE(middle.empty());
  for (const std::size_t index : middle) {
    const std::string& name = manifest.tensors[index].name;
    EXPECT_TRUE(name.starts_with("blk.1.") || name.starts_with("blk.2.")) << name;
  }
  Manifest odd = manifest;
  odd.tensors[0].name = "blk.4294967295.x";
  odd.tensors[1].name = "blk.99999999999999999999.x";
  odd.tensors[2].name = "blk.7";
  EXPECT_EQ(layer_count(odd), 4U) << "no names of layers";
}

TEST_F(ManifestTest, InputsOfLayersAreMadeByTheStageWithTheEmbedding) {
  Manifest more = manifest;
  for (const char* name : {"per_layer_token_embd.weight", "rope_freqs.weight"}) {
    more.tensors.push_back(more.tensors.back());
    more.tensors.back().name = name;
  }
  const std::size_t inputs = manifest.tensors.size();
  EXPECT_EQ(std::ranges::count(*stage_tensors(more, {0, 2}), inputs), 1);
  EXPECT_EQ(std::ranges::count(*stage_tensors(more, {2, 4}), inputs), 0);
  EXPECT_EQ(std::ranges::count(*stage_tensors(more, {2, 4}), inputs + 1), 1);
  std::vector<std::string> common;
  for (const ManifestTensor& tensor : more.tensors) {
    if (is_common(tensor.name)) common.push_back(tensor.name);
  }
  EXPECT_EQ(common, std::vector<std::string>{"rope_freqs.weight"});
}

TEST_F(ManifestTest, LayersThatPredictAreOfNoStage) {
  Manifest longer = manifest;
  for (const char* name : {"blk.4.attn_q.weight", "blk.4.nextn.eh_proj.weight"}) {
    longer.tensors.push_back(longer.tensors.back());
    longer.tensors.back().name = name;
  }
  EXPECT_EQ(layer_count(longer), 4U);
  EXPECT_FALSE(stage_tensors(longer, {0, 5}).ok());
  EXPECT_EQ(*stage_tensors(longer, {3, 4}), *stage_tensors(manifest, {3, 4}))
      << "the last stage has the head";
}

}  // namespace
}  // namespace hearth::model
