// Checks of the Host and Origin headers: the former stops DNS rebinding, the latter stops pages of
// other sites. Defaults are ollama's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::coordinator::http {

// The names of this machine, in addition to those of loopback.
struct HostNames {
  std::vector<std::string> names;
  // Allow any IP address: the API listens beyond loopback, and a name server cannot forge
  // addresses.
  bool any_address = false;
};

// A Host header (or the authority of an absolute target) that names this machine: localhost,
// *.localhost, 127.0.0.0/8, [::1], or one of `names`. Any port.
bool host_allowed(std::string_view host, const HostNames& names);

// An Origin on this machine (http or https on localhost, a loopback address or one of the names),
// or on the host that the request names, or of a desktop shell: app://, file://, tauri://,
// vscode-webview://, vscode-file://. `host`: an allowed Host header, or empty.
bool origin_allowed(std::string_view origin, std::string_view host, const HostNames& names);

// "%41" decoding of a path. False for a broken escape, a NUL or a control character.
bool decode_path(std::string_view raw, std::string& out);

}  // namespace hearth::coordinator::http
