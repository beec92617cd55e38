// Whom of a network a numeric host stands for, where peers are counted or compared.
#pragma once

#include <string>

namespace hearth {

// An IPv4 address, also of its form in IPv6; or the /64 of an IPv6 address, all of which any
// household may use.
std::string peer_of_host(const std::string& host);

}  // namespace hearth
