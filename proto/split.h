// Layer and page arithmetic that coordinator and workers must compute alike.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace hearth {

// Layer ranges of `stages` equal shares of `layers`, the first ones one larger. 1 <= stages <=
// layers.
std::vector<LayerRange> split_layers(std::uint32_t layers, std::uint32_t stages);

// The same with at most most[i] layers on stage i (0: any number); the other stages take the rest,
// again in equal shares. Empty when the stages together have no room.
std::vector<LayerRange> split_layers(std::uint32_t layers, const std::vector<std::uint32_t>& most);

// KV pages that `tokens` positions need at `page_tokens` positions a page.
constexpr std::uint32_t pages_for(std::uint32_t tokens, std::uint32_t page_tokens) {
  return tokens / page_tokens + (tokens % page_tokens != 0 ? 1 : 0);
}

}  // namespace hearth
