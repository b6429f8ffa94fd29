// Rows of `input`: where samples come from.

#include "core/config/settings/input.hpp"
#include "core/config/schema/rows.hpp"

namespace rehearse::schema {

void add_input(std::vector<Field>& t) {
  const auto input = [](const std::string& name, auto member, std::string help) {
    return row("input." + name, at(&Scenario::input, member), std::move(help));
  };
  t.push_back(input("sample", &InputSettings::sample, "Stored size of one sample.")
                  .in(0, 1e15)
                  .like("110kB")
                  .more("0 leaves storage and decoding out: only the copy to the device is counted.")
                  .seldom());
  t.push_back(input("storage", &InputSettings::storage, "Rate at which one node reads samples.")
                  .in(0, 1e15)
                  .like("2GB/s")
                  .more("Shared by the ranks of the node that load. 0 is no limit.")
                  .seldom());
  t.push_back(input("decode_per_core", &InputSettings::decode_per_core, "Samples per second that one CPU core decodes.")
                  .in(0, 1e15)
                  .like("100")
                  .more("0 is nothing to decode.")
                  .seldom());
  t.push_back(input("workers", &InputSettings::workers, "Loader processes per GPU, a core each.")
                  .in(1, 100000)
                  .like("8")
                  .more("Where one rank loads for all (DataParallel), it has those of all.")
                  .seldom());
  t.push_back(input("gpudirect_storage", &InputSettings::gpudirect_storage,
                    "Samples go from storage to GPU memory, past the CPU.")
                  .more("No decoding on cores and no copy from host memory.")
                  .seldom());
}

}  // namespace rehearse::schema
