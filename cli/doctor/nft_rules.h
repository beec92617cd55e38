// What nftables of this machine do with those who dial it, of `nft -j list ruleset`
// (libnftables-json(5)): only as much as tells which chain keeps others from a TCP port. IPv6's own
// tables (family ip6) are left out, and what depends on more than the port (a sender's address, an
// interface, a limit) counts as possible: a port is closed where nobody at all gets through.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

struct NftChain {
  std::string family;  // inet or ip
  std::string table;
  std::string name;
  friend auto operator<=>(const NftChain&, const NftChain&) = default;
};

class NftRuleset {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{4} << 20;

  // kInvalidInput for what is no such text, or a longer one.
  static Result<NftRuleset> parse(std::string_view json);

  // Whether some chain that sees what comes in drops anything.
  bool drops() const;
  // The chain that drops every new TCP connection of other machines to the port; none: they may get
  // through.
  std::optional<NftChain> closes(std::uint16_t port) const;

 private:
  friend class NftReader;
  enum class Match : std::uint8_t { kNo, kMaybe, kYes };
  enum class Action : std::uint8_t { kNone, kAccept, kDrop, kJump, kGoto, kReturn, kUnknown };
  struct Ports {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // inclusive
    bool outside = false;                                         // all others match
  };
  struct Rule {
    std::vector<Ports> ports;  // all must hold
    Match rest = Match::kYes;  // its other conditions, for a new TCP connection from beyond
    Action action = Action::kNone;
    std::string target;  // of a jump
  };
  struct Chain {
    bool base = false;   // sees what comes in, by itself
    bool drops = false;  // what no rule has settled
    std::vector<Rule> rules;
  };
  struct Walk;
  static Match match(const Rule& rule, std::uint16_t port);
  Action walk(const NftChain& at, Walk& walk, unsigned depth) const;

  std::map<NftChain, Chain> chains_;
};

}  // namespace hearth::cli
