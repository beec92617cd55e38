#include "node/engine/weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>
#include <string>

#include "kernels/thread_pool.h"
#include "model/gguf/writer.h"
#include "model/synthetic.h"

namespace hearth::node {
namespace {

using model::GgufFile;
using model::TensorInfo;
using model::TensorType;

// The tensors of a synthetic model, written again with one of them changed. The spec stays the
// first file's, as when a file passed its own check and holds something else.
struct WeightsTest : ::testing::Test {
  Bytes bytes = model::synthetic_model_bytes(options()).value();
  std::shared_ptr<const GgufFile> file = GgufFile::parse(bytes, "tiny").value();
  model::ModelSpec spec = model::ModelSpec::read(*file).value();
  Bytes changed_bytes;

  static model::SyntheticOptions options() {
    model::SyntheticOptions options;
    options.layers = 2;
    options.tied_output = false;
    return options;
  }

  std::string load_changed(const std::string& name,
                           const std::function<bool(TensorInfo&, Bytes&)>& change,
                           LayerRange layers) {
    model::GgufWriter writer;
    for (const TensorInfo& original : file->tensors()) {
      TensorInfo tensor = original;
      const ByteSpan view = file->tensor_bytes(original);
      Bytes data(view.begin(), view.end());
      if (tensor.name == name && !change(tensor, data)) continue;
      const std::size_t rows = tensor.elements() / tensor.dims[0];
      writer.add_tensor(tensor.name, tensor.type, tensor.dims,
                        [data, rows](std::uint64_t row, MutableByteSpan out) {
                          const std::size_t size = data.size() / rows;
                          std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(row * size),
                                      std::min(size, out.size()), out.begin());
                          return ok_status();
                        });
    }
    changed_bytes = writer.bytes().value();
    const auto parsed = GgufFile::parse(changed_bytes, "changed");
    if (!parsed.ok()) return "parse: " + parsed.error().message;
    const auto weights = StageWeights::load(**parsed, spec, layers);
    return weights.ok() ? "" : weights.error().message;
  }
};

TEST_F(WeightsTest, LoadsWhatEachRangeNeedsAndNoMore) {
  const auto all = StageWeights::load(*file, spec, {0, 2});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->layers.size(), 2U);
  EXPECT_EQ(all->embedding.rows(), spec.vocabulary);
  EXPECT_EQ(all->head.rows(), spec.vocabulary);
  EXPECT_EQ(&all->output(), &all->head);
  const auto first = StageWeights::load(*file, spec, {0, 1});
  EXPECT_EQ(first->embedding.rows(), spec.vocabulary);
  EXPECT_TRUE(first->output_norm.empty());
  EXPECT_EQ(first->head.bytes(), 0U);
  const auto last = StageWeights::load(*file, spec, {1, 2});
  EXPECT_EQ(last->embedding.bytes(), 0U);
  EXPECT_EQ(last->output_norm.size(), spec.hidden);
  EXPECT_EQ(first->bytes() + last->bytes(), all->bytes());
  const LayerWeights& layer = all->layers[1];
  EXPECT_EQ(layer.query.rows(), spec.heads * spec.head_dim);
  EXPECT_EQ(layer.key.rows(), spec.kv_heads * spec.head_dim);
  EXPECT_EQ(layer.down.cols(), spec.feed_forward);
  EXPECT_TRUE(layer.query_bias.empty());
}

TEST_F(WeightsTest, EveryTensorOfARangeMustBeThereInItsShape) {
  const auto gone = [](TensorInfo&, Bytes&) { return false; };
  const auto half = [](TensorInfo& tensor, Bytes& data) {
    if (tensor.dims.size() == 1) {
      tensor.dims[0] /= 2;
    } else {
      tensor.dims[1] /= 2;
    }
    data.resize(data.size() / 2);
    return true;
  };
  const auto turned = [](TensorInfo& tensor, Bytes&) {
    if (tensor.dims.size() == 1) {
      tensor.dims.push_back(1);
    } else {
      tensor.dims = {tensor.dims[0] * tensor.dims[1], 1};
    }
    return true;
  };
  for (const TensorInfo& tensor : file->tensors()) {
    const std::string& name = tensor.name;
    const bool in_first = name == "token_embd.weight" || name.starts_with("blk.0.");
    const LayerRange with = in_first ? LayerRange{0, 1} : LayerRange{1, 2};
    const LayerRange without = in_first ? LayerRange{1, 2} : LayerRange{0, 1};
    for (const auto& change : {std::function<bool(TensorInfo&, Bytes&)>(gone), {half}, {turned}}) {
      EXPECT_NE(load_changed(name, change, with).find(name), std::string::npos) << name;
      EXPECT_EQ(load_changed(name, change, without), "") << name;
    }
  }
}

TEST_F(WeightsTest, VectorsThatAreNotF32AreRefusedByName) {
  const auto as = [](TensorType type, std::size_t bytes_of_one) {
    return [type, bytes_of_one](TensorInfo& tensor, Bytes& data) {
      tensor.type = type;
      data.assign(tensor.elements() * bytes_of_one, std::byte{0});
      return true;
    };
  };
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) {
    const std::string refused = load_changed(name, as(TensorType::kF16, 2), {0, 1});
    EXPECT_NE(refused.find(std::string(name) + " is not F32"), std::string::npos) << refused;
  }
}

constexpr std::uint16_t kBadHalves[] = {0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01};

// Where a block of the type keeps halves.
std::vector<std::size_t> half_offsets(TensorType type) {
  return type == TensorType::kQ4_1 ? std::vector<std::size_t>{0, 2} : std::vector<std::size_t>{0};
}

TEST_F(WeightsTest, ScalesThatAreNotFiniteAreRefusedInEveryMatrix) {
  std::size_t matrices = 0;
  for (const TensorInfo& tensor : file->tensors()) {
    if (tensor.dims.size() != 2) continue;
    ++matrices;
    const auto* info = model::tensor_type_info(static_cast<std::uint32_t>(tensor.type));
    const std::size_t row_blocks = tensor.dims[0] / info->block_elements;
    const std::size_t rows = tensor.dims[1];
    for (const auto& [row, block] : {std::pair<std::size_t, std::size_t>{0, 0},
                                     {rows / 2, row_blocks - 1},
                                     {rows - 1, row_blocks - 1}}) {
      for (const std::size_t offset : half_offsets(tensor.type)) {
        for (const std::uint16_t bad : kBadHalves) {
          const std::size_t at = (row * row_blocks + block) * info->block_bytes + offset;
          const auto plant = [at, bad](TensorInfo&, Bytes& data) {
            std::memcpy(data.data() + at, &bad, 2);
            return true;
          };
          EXPECT_EQ(load_changed(tensor.name, plant, {0, 2}),
                    "tensor " + tensor.name + ": the scale of block " + std::to_string(block) +
                        " of row " + std::to_string(row) + " of a weight matrix is not finite");
        }
      }
    }
  }
  EXPECT_EQ(matrices, 2 + 7 * 2U);  // embedding, output and two layers
}

TEST_F(WeightsTest, ValuesThatAreNotFiniteAreRefusedInEveryVector) {
  std::size_t vectors = 0;
  for (const TensorInfo& tensor : file->tensors()) {
    if (tensor.dims.size() != 1) continue;
    ++vectors;
    for (const std::size_t at : {std::size_t{0}, std::size_t{tensor.dims[0] - 1}}) {
      for (const float bad :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN()}) {
        const auto plant = [bad, at](TensorInfo&, Bytes& data) {
          std::memcpy(data.data() + at * 4, &bad, 4);
          return true;
        };
        EXPECT_EQ(load_changed(tensor.name, plant, {0, 2}),
                  "tensor " + tensor.name + ": value " + std::to_string(at) + " is not finite");
      }
    }
  }
  EXPECT_EQ(vectors, 1 + 2 * 2U);  // the final norm and two a layer
}

TEST_F(WeightsTest, ATiedEmbeddingIsRefusedOnTheFirstAndOnTheLastStage) {
  model::SyntheticOptions tied = options();
  tied.tied_output = true;
  bytes = model::synthetic_model_bytes(tied).value();
  file = GgufFile::parse(bytes, "tied").value();
  spec = model::ModelSpec::read(*file).value();
  const auto plant = [](TensorInfo&, Bytes& data) {
    data[1] = std::byte{0x7C};
    data[0] = std::byte{0};
    return true;
  };
  for (const LayerRange stage : {LayerRange{0, 1}, LayerRange{1, 2}}) {
    EXPECT_TRUE(load_changed("token_embd.weight", plant, stage)
                    .starts_with("tensor token_embd.weight: the scale of block 0 of row 0"));
  }
}

TEST_F(WeightsTest, ATiedHeadIsTheEmbeddingItselfOrItsCopyOnALaterStage) {
  model::SyntheticOptions tied = options();
  tied.tied_output = true;
  const Bytes other_bytes = model::synthetic_model_bytes(tied).value();
  const auto other = GgufFile::parse(other_bytes, "tied").value();
  const model::ModelSpec tied_spec = model::ModelSpec::read(*other).value();
  const auto all = StageWeights::load(*other, tied_spec, {0, 2});
  EXPECT_EQ(&all->output(), &all->embedding);
  EXPECT_EQ(all->head.bytes(), 0U);
  const auto last = StageWeights::load(*other, tied_spec, {1, 2});
  EXPECT_EQ(&last->output(), &last->head);
  ASSERT_EQ(last->head.bytes(), all->embedding.bytes());
  EXPECT_EQ(std::memcmp(last->head.group(0), all->embedding.group(0), last->head.bytes()), 0);
}

TEST_F(WeightsTest, ABitThatChangedIsFoundInItsLayer) {
  StageWeights weights = StageWeights::load(*file, spec, {0, 2}).value();
  const auto threads = kernels::ThreadPool::create(2).value();
  kernels::ThreadPool& pool = *threads;
  const std::vector<std::uint64_t> loaded = weights.digests(pool);
  ASSERT_EQ(loaded.size(), 3u);
  EXPECT_EQ(weights.digests(pool), loaded);
  const kernels::PackedMatrix& down = weights.layers[1].down;
  std::byte& last = const_cast<std::byte*>(down.group(down.groups() - 1))[down.group_bytes() - 1];
  for (unsigned bit = 0; bit < 8; ++bit) {
    last ^= std::byte{1} << bit;
    const std::vector<std::uint64_t> now = weights.digests(pool);
    EXPECT_EQ(now[0], loaded[0]);
    EXPECT_NE(now[1], loaded[1]);
    EXPECT_EQ(now[2], loaded[2]);
    last ^= std::byte{1} << bit;
  }
  weights.output_norm[0] = -weights.output_norm[0];
  EXPECT_NE(weights.digests(pool)[2], loaded[2]);
}

}  // namespace
}  // namespace hearth::node
