// The reasons that a coordinator gives when it refuses a node. It gives them only to a node that
// has shown the secret of a join token, or its own key. Every other one gets kNotAdmitted
// (transport.h), or kCannotStore, which says nothing of the node. Both sides know these sentences;
// an older program ignores them.
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
inline constexpr std::string_view kCannotStore =
    "the coordinator cannot store a new node now; try again in a minute";

// The part of an error that the peer gets. The message begins with it; the rest is for the log.
inline std::string_view told_refusal(const Error& error) {
  for (const std::string_view told : {kTokenSpent, kTokenOfOtherRole, kNameTaken, kNodeRemoved}) {
    if (error.code == ErrorCode::kRefused && error.message.starts_with(told)) return told;
  }
  return error.code == ErrorCode::kUnavailable ? kCannotStore : kNotAdmitted;
}

}  // namespace hearth
