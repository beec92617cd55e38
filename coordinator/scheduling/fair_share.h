// FairShare: whose turn it is among the API keys that wait, by what each was given so far: the
// virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024).
// A key is charged for its tokens, a generated one as much as two of a prompt; the least served one
// goes first; one that comes to wait after a pause is lifted to where the others are, so that
// nobody saves up turns. A plain state machine, for the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hearth::coordinator {

class FairShare {
 public:
  // One of the key's sequences waits, or waits no more.
  void arrive(const std::string& key);
  void leave(const std::string& key);
  // One that waited is given its tokens, or gives back those that it did not need.
  void charge(const std::string& key, std::uint64_t cost);
  void refund(const std::string& key, std::uint64_t cost);

  std::uint64_t served(const std::string& key) const;
  std::uint32_t waiting(const std::string& key) const;

 private:
  struct Share {
    std::uint64_t served = 0;
    std::uint32_t waiting = 0;
  };
  // Without those that nothing distinguishes from a key that was never here.
  std::map<std::string, Share> shares_;
  std::uint64_t floor_ = 0;  // what the key that went last had been given before
};

// Of a sequence with that many tokens of either kind.
constexpr std::uint64_t fair_cost(std::uint64_t prompt_tokens, std::uint64_t generated) {
  return prompt_tokens + 2 * generated;
}

}  // namespace hearth::coordinator
