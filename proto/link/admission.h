// Why a coordinator refuses a node, as far as it says so: to one that has shown the secret of a
// join token, or its own key. Everybody else hears kNotAdmitted (transport.h), whatever
// the reason. Both sides know these sentences; an older program passes over them.
#pragma once

#include <string_view>

#include "base/error.h"
#include "proto/link/transport.h"

namespace hearth {

inline constexpr std::string_view kTokenSpent =
    "this join token is used up, has expired or was revoked";
inline constexpr std::string_view kTokenOfOtherRole = "this join token is for another role";
inline constexpr std::string_view kNameTaken = "another node of the cluster has this name";
inline constexpr std::string_view kNodeRemoved = "this node was removed from the cluster";

// What the peer is told of an error, whose message begins with it and goes on for the log.
inline std::string_view told_refusal(const Error& error) {
  for (const std::string_view told : {kTokenSpent, kTokenOfOtherRole, kNameTaken, kNodeRemoved}) {
    if (error.code == ErrorCode::kRefused && error.message.starts_with(told)) return told;
  }
  return kNotAdmitted;
}

}  // namespace hearth
