// Reads and writes GGUF files for the oracle test, in JSON that loses nothing: text as hexadecimal
// digits, floats as the bits of a double.
//
//   gguf_tool dump FILE     prints keys, tensors and the SHA-256 of their bytes
//   gguf_tool write FILE    writes what standard input describes:
//                           {"alignment": 32, "values": [[key, type, value]...],
//                            "tensors": [[name, type, dims, bytes]...]}
// A type is GGUF's number, or [number] for an array of it; numbers of tensor types are ggml's.
#include <bit>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/crypto.h"
#include "model/gguf/gguf.h"
#include "model/gguf/writer.h"
#include "tests/tools/parts_writer.h"

namespace {

using nlohmann::json;
using namespace hearth;         // NOLINT
using namespace hearth::model;  // NOLINT

std::string to_hex(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

json dumped(std::uint64_t value) { return {"unsigned", value}; }
json dumped(std::int64_t value) { return {"signed", value}; }
json dumped(bool value) { return {"bool", value}; }
json dumped(double value) { return {"float", std::bit_cast<std::uint64_t>(value)}; }
json dumped(std::string_view value) { return {"text", to_hex(as_bytes(value))}; }
json dumped(const std::string& value) { return dumped(std::string_view(value)); }
json dumped(const GgufArray& array) {
  json items = json::array();
  std::visit(
      [&](const auto& list) {
        using Item = typename std::decay_t<decltype(list)>::value_type;
        for (const Item item : list) items.push_back(dumped(item)[1]);
        const json one = dumped(Item{});
        items = {one[0], items};
      },
      array.items);
  return {"array", items};
}

int dump(const char* path) {
  const auto opened = GgufFile::open(path);
  if (!opened.ok()) {
    std::cout << json{{"error", opened.error().message}} << "\n";
    return 0;
  }
  const GgufFile& file = **opened;
  json values = json::object();
  for (const std::string_view key : file.keys()) {
    values[to_hex(as_bytes(key))] =
        std::visit([](const auto& value) { return dumped(value); }, *file.find(key));
  }
  json tensors = json::array();
  for (const TensorInfo& tensor : file.tensors()) {
    Sha256 hash;
    hash.update(file.tensor_bytes(tensor));
    tensors.push_back({{"name", tensor.name},
                       {"type", static_cast<std::uint32_t>(tensor.type)},
                       {"dims", tensor.dims},
                       {"offset", tensor.offset},
                       {"bytes", tensor.bytes},
                       {"sha256", hash.finish().hex()}});
  }
  std::cout << json{{"values", values},
                    {"tensors", tensors},
                    {"fingerprint", file.fingerprint().hex()},
                    {"parts", file.parts().size()}}
            << "\n";
  return 0;
}

template <typename T>
T written(const json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return from_hex(value.get<std::string>());
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::bit_cast<double>(value.get<std::uint64_t>()));
  } else {
    return value.get<T>();
  }
}

template <typename T>
void add(GgufWriter& writer, const std::string& key, bool array, const json& value) {
  if (!array) return writer.add(key, written<T>(value));
  std::vector<T> items;
  for (const json& item : value) items.push_back(written<T>(item));
  writer.add_array(key, items);
}

void add_value(GgufWriter& writer, const std::string& key, const json& type, const json& value) {
  const bool array = type.is_array();
  switch ((array ? type[0] : type).get<int>()) {
    case 0: return add<std::uint8_t>(writer, key, array, value);
    case 1: return add<std::int8_t>(writer, key, array, value);
    case 2: return add<std::uint16_t>(writer, key, array, value);
    case 3: return add<std::int16_t>(writer, key, array, value);
    case 4: return add<std::uint32_t>(writer, key, array, value);
    case 5: return add<std::int32_t>(writer, key, array, value);
    case 6: return add<float>(writer, key, array, value);
    case 7: return add<bool>(writer, key, array, value);
    case 8: return add<std::string>(writer, key, array, value);
    case 10: return add<std::uint64_t>(writer, key, array, value);
    case 11: return add<std::int64_t>(writer, key, array, value);
    default: return add<double>(writer, key, array, value);
  }
}

int write(const char* path) {
  const json wanted = json::parse(std::cin);
  GgufWriter writer(wanted.at("alignment").get<std::uint32_t>());
  for (const json& value : wanted.at("values")) {
    add_value(writer, from_hex(value[0]), value[1], value[2]);
  }
  for (const json& tensor : wanted.at("tensors")) {
    const std::string bytes = from_hex(tensor[3]);
    const auto row = [bytes](std::uint64_t index, MutableByteSpan out) -> Status {
      REQUIRE((index + 1) * out.size() <= bytes.size(), "too few bytes");
      std::memcpy(out.data(), bytes.data() + index * out.size(), out.size());
      return ok_status();
    };
    writer.add_tensor(tensor[0].get<std::string>(),
                      static_cast<TensorType>(tensor[1].get<std::uint32_t>()),
                      tensor[2].get<std::vector<std::uint64_t>>(), row);
  }
  // 1: one file.
  const auto parts = wanted.value("parts", 1U);
  Status status = ok_status();
  if (parts == 1) {
    status = writer.write(path);
  } else if (const auto first =
                 model::PartsWriter(writer).write_parts(path, parts, wanted.at("bare_first"));
             !first.ok()) {
    status = first.error();
  }
  if (!status.ok()) std::cerr << status.error().message << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "dump") return dump(argv[2]);
  if (verb == "write") return write(argv[2]);
  std::cerr << "usage: gguf_tool dump|write FILE\n";
  return 2;
}
