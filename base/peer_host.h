// The peer that a numeric host stands for, where peers are counted or compared.
#pragma once

#include <string>

namespace hearth {

// An IPv4 address, also in its IPv6 form; or the /64 of an IPv6 address, because one machine may
// use all addresses of its /64.
std::string peer_of_host(const std::string& host);

}  // namespace hearth
