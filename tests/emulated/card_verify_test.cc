// The check of a card's weights: a bit of any array of any tensor is found, and the tensor named.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/spec.h"
#include "model/synthetic.h"
#include "node/engine/card/card_weights.h"
#include "tests/emulated/emulated_runtime.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

// One tensor's array in the card's memory.
struct Array {
  std::string tensor;
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

std::vector<Array> arrays_of(const CardWeights& weights) {
  std::vector<Array> arrays;
  for (const CardTensor& tensor : weights.tensors()) {
    arrays.push_back({tensor.name, tensor.data, tensor.bytes});
    if (!tensor.is_matrix) continue;
    arrays.push_back({tensor.name, reinterpret_cast<const std::byte*>(tensor.exponents),
                      std::size_t{tensor.rows} * sizeof(std::int32_t)});
  }
  return arrays;
}

TEST(CardVerify, FindsABitOfEveryArrayOfEveryTensor) {
  emulated::set_memory(std::uint64_t{2} << 30);
  model::SyntheticOptions model;
  model.family = "qwen2";  // with biases
  model.layers = 1;
  model.hidden = 64;
  model.feed_forward = 96;
  model.heads = 2;
  model.kv_heads = 1;
  model.vocabulary = 288;
  model.context = 64;
  model.tied_output = false;
  const Bytes bytes = model::synthetic_model_bytes(model).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  Placement counted;
  const std::size_t count =
      CardWeights::place(*file, spec, {0, 1}, counted).value().tensors().size();
  counted.take<std::uint64_t>(count);
  cuda::DeviceMemory memory = cuda::DeviceMemory::allocate(counted.bytes()).value();
  Placement placement(memory);
  CardWeights weights = CardWeights::place(*file, spec, {0, 1}, placement).value();
  auto* const sums = placement.take<std::uint64_t>(count);
  const auto found = cuda::PinnedMemory::allocate(count * sizeof(std::uint64_t)).value();
  const cuda::OwnedStream stream = cuda::make_stream().value();
  const auto pool = kernels::ThreadPool::create(1, false).value();
  ASSERT_TRUE(weights.load(*file, *pool, stream.get(), {}, {}).ok());
  const auto verify = [&] { return weights.verify(sums, found.data(), stream.get()); };
  ASSERT_TRUE(verify().ok());

  const std::vector<Array> arrays = arrays_of(weights);
  EXPECT_GT(arrays.size(), 20U);
  for (const Array& array : arrays) {
    for (const std::size_t at : {std::size_t{0}, array.bytes / 2, array.bytes - 1}) {
      emulated::flip_bit(array.begin + at);
      const Status changed = verify();
      ASSERT_FALSE(changed.ok()) << array.tensor << ", byte " << at << " of " << array.bytes;
      EXPECT_EQ(changed.error().code, ErrorCode::kNumeric);
      EXPECT_NE(changed.error().message.find("tensor " + array.tensor + " "), std::string::npos)
          << changed.error().message;
      emulated::flip_bit(array.begin + at);
    }
  }
  EXPECT_TRUE(verify().ok());
}

}  // namespace
}  // namespace hearth::node
