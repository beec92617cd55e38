// Strong types for the numbers that travel: mixing two of them up does not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace hearth {

template <typename Tag, typename Rep>
struct Id {
  Rep value{};
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using TokenId = std::int32_t;    // index into the model's vocabulary
using Position = std::uint32_t;  // index of a token inside its sequence, from 0

using SequenceId = Id<struct SequenceTag, std::uint64_t>;  // unique for a coordinator's lifetime
using Epoch = Id<struct EpochTag, std::uint64_t>;          // one formation of one pipeline
using StepId = Id<struct StepTag, std::uint64_t>;          // one StepBatch within an epoch

// Layers [begin, end) of a model. The first stage also embeds; the last also has the head.
struct LayerRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// "0-9", the last one included, as `serve --place` takes them; "-" of none.
inline std::string text_of(LayerRange layers) {
  if (layers.begin >= layers.end) return "-";
  return std::to_string(layers.begin) + "-" + std::to_string(layers.end - 1);
}

// "1 window", "2 windows".
inline std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace hearth

template <typename Tag, typename Rep>
struct std::hash<hearth::Id<Tag, Rep>> {
  std::size_t operator()(const hearth::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
