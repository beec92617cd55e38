// A small llama file of zeros, of which a test changes keys and tensors.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/gguf/writer.h"
#include "model/spec.h"

namespace hearth::model {

using AddKey = std::function<void(GgufWriter&, const std::string&)>;

template <typename T>
AddKey value(T item) {
  return [item](GgufWriter& writer, const std::string& key) { writer.add(key, item); };
}
inline AddKey u32(std::uint32_t item) { return value(item); }

// A small llama file of zeros whose keys and tensors a test can replace one by one.
struct Model {
  struct Tensor {
    TensorType type;
    std::vector<std::uint64_t> dims;
  };
  std::map<std::string, AddKey> keys{
      {"general.architecture", value(std::string("llama"))},
      {"general.name", value(std::string("a model"))},
      {"llama.block_count", u32(2)},
      {"llama.context_length", u32(128)},
      {"llama.embedding_length", u32(128)},
      {"llama.feed_forward_length", u32(96)},
      {"llama.attention.head_count", u32(4)},
      {"llama.attention.head_count_kv", u32(2)},
      {"llama.attention.layer_norm_rms_epsilon", value(1e-5F)},
  };
  std::map<std::string, Tensor> tensors{{"token_embd.weight", {TensorType::kQ8_0, {128, 50}}},
                                        {"output_norm.weight", {TensorType::kF32, {128}}}};
  float rope_factor = 2.0F;
  std::map<std::string, float> fills;  // of every value of a tensor of F32, where it is not 0

  Model() {
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors[layer + "attn_norm.weight"] = {TensorType::kF32, {128}};
      tensors[layer + "attn_q.weight"] = {TensorType::kQ4_1, {128, 128}};
      tensors[layer + "attn_k.weight"] = {TensorType::kQ4_0, {128, 64}};
      tensors[layer + "attn_v.weight"] = {TensorType::kQ4_1, {128, 64}};
      tensors[layer + "attn_output.weight"] = {TensorType::kQ4_1, {128, 128}};
      tensors[layer + "ffn_norm.weight"] = {TensorType::kF32, {128}};
      tensors[layer + "ffn_gate.weight"] = {TensorType::kQ4_1, {128, 96}};
      tensors[layer + "ffn_up.weight"] = {TensorType::kQ4_1, {128, 96}};
      tensors[layer + "ffn_down.weight"] = {TensorType::kQ4_1, {96, 128}};
    }
  }

  Result<ModelSpec> read() const {
    GgufWriter writer;
    for (const auto& [key, add] : keys) add(writer, key);
    for (const auto& [name, tensor] : tensors) {
      const auto own = fills.find(name);
      const float given = own == fills.end() ? 0.0F : own->second;
      const float fill = name == "rope_freqs.weight" ? rope_factor : given;
      writer.add_tensor(name, tensor.type, tensor.dims,
                        [fill](std::uint64_t, MutableByteSpan out) -> Status {
                          for (std::size_t i = 0; fill != 0.0F && i < out.size(); i += 4) {
                            std::memcpy(out.data() + i, &fill, sizeof(fill));
                          }
                          return ok_status();
                        });
    }
    TRY(const Bytes bytes, writer.bytes());
    TRY(const auto file, GgufFile::parse(bytes, "dir/tiny.gguf"));
    return ModelSpec::read(*file);
  }
};

// Of 4 layers of the family, dense and no larger than the file above.
inline ModelSpec family_spec(const std::string& family) {
  ModelSpec spec;
  spec.family = find_family(family);
  spec.layers = 4;
  spec.hidden = 128;
  spec.feed_forward = 96;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 32;
  spec.vocabulary = 50;
  spec.tied_embeddings = true;
  spec.head_norms = spec.family->head_norms;
  if (spec.head_norms == HeadNorms::kMay) spec.head_norms = HeadNorms::kNone;
  return spec;
}

// A file with the tensors of `spec` and the keys of a small llama file as those of its family, with
// keys of one's own; nothing in place of a key removes it.
inline Model model_with(const ModelSpec& spec, const std::map<std::string, AddKey>& keys = {}) {
  Model model;
  const std::string family(spec.family->architecture);
  const auto before = model.keys;
  for (const auto& [key, add] : before) {
    if (key.starts_with("llama.")) model.keys[family + key.substr(5)] = add;
  }
  model.keys["general.architecture"] = value(family);
  model.keys[family + ".block_count"] = u32(spec.layers);
  model.tensors.clear();
  const auto add_all = [&](const std::vector<ExpectedTensor>& tensors) {
    for (const ExpectedTensor& tensor : tensors) {
      model.tensors[tensor.name] = {tensor.is_matrix ? TensorType::kQ8_0 : TensorType::kF32,
                                    tensor.dims};
    }
  };
  add_all(outer_tensors(spec));
  for (std::uint32_t i = 0; i < spec.layers; ++i) add_all(layer_tensors(spec, i));
  for (const auto& [key, add] : keys) {
    if (add) model.keys[family + "." + key] = add;
    if (!add) model.keys.erase(family + "." + key);
  }
  return model;
}

inline std::string refusal_of(const Model& model) {
  const auto spec = model.read();
  return spec.ok() ? std::string() : spec.error().message;
}

template <typename T>
AddKey array(std::vector<T> items) {
  return [items](GgufWriter& writer, const std::string& key) { writer.add_array(key, items); };
}

inline void expect_refusal(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
}

}  // namespace hearth::model
