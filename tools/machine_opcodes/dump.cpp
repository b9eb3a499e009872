// Dumps what LLVM's AMDGPU tables say of the opcodes that occur in machine IR, as JSON lines (one object a line).
//
// One line for every opcode that is a pseudo or one of all targets (machine IR before register allocation holds no others):
// flags of MCInstrDesc, and for each processor named on the command line [latency, unit, cycles for which the unit is held]
// of its scheduling model, null where the model decides by the operands.
//
// Built and run by build.py; see there.

#include "llvm/ADT/STLExtras.h"
#include "llvm/MC/MCInstrDesc.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSchedule.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

#include <algorithm>
#include <memory>
#include <vector>

using namespace llvm;

static void cost(raw_ostream &OS, const MCSubtargetInfo &STI, const MCInstrDesc &D) {
  const MCSchedModel &Model = STI.getSchedModel();
  const MCSchedClassDesc *Class =
      Model.hasInstrSchedModel() ? Model.getSchedClassDesc(D.getSchedClass()) : nullptr;
  if (!Class || !Class->isValid() || Class->isVariant()) {
    OS << "null";
    return;
  }
  int Latency = 0;
  for (unsigned I = 0; I < Class->NumWriteLatencyEntries; ++I)
    Latency = std::max<int>(Latency, STI.getWriteLatencyEntry(Class, I)->Cycles);
  StringRef Unit;
  unsigned Held = 0;
  for (const MCWriteProcResEntry *Entry = STI.getWriteProcResBegin(Class); Entry != STI.getWriteProcResEnd(Class);
       ++Entry) {
    if (Entry->ReleaseAtCycle > Held) {
      Held = Entry->ReleaseAtCycle;
      Unit = Model.getProcResource(Entry->ProcResourceIdx)->Name;
    }
  }
  OS << "[" << Latency << ",\"" << Unit << "\"," << Held << "]";
}

static bool names(const MCRegisterInfo &MRI, ArrayRef<MCPhysReg> Registers, StringRef Name) {
  return llvm::any_of(Registers, [&](MCPhysReg R) { return Name == MRI.getName(R); });
}

static void flags(raw_ostream &OS, const MCRegisterInfo &MRI, const MCInstrDesc &D) {
  bool First = true;
  auto Flag = [&](bool On, const char *Name) {
    if (On) {
      OS << (First ? "" : ",") << "\"" << Name << "\"";
      First = false;
    }
  };
  Flag(D.mayLoad(), "may_load");
  Flag(D.mayStore(), "may_store");
  Flag(D.hasUnmodeledSideEffects(), "side_effects");
  Flag(D.mayRaiseFPException(), "fp_exception");
  Flag(D.isTerminator(), "terminator");
  Flag(D.isCall(), "call");
  Flag(D.isMetaInstruction(), "meta");
  Flag(names(MRI, D.implicit_uses(), "VCC") || names(MRI, D.implicit_defs(), "VCC"), "implicit_vcc");
}

int main(int argc, char **argv) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  Triple TT{"amdgcn-amd-amdhsa"};
  std::string Error;
  const Target *T = TargetRegistry::lookupTarget("", TT, Error);
  if (!T) {
    errs() << Error << "\n";
    return 1;
  }
  std::unique_ptr<MCRegisterInfo> MRI(T->createMCRegInfo(TT));
  std::unique_ptr<MCInstrInfo> MII(T->createMCInstrInfo());
  std::vector<std::unique_ptr<MCSubtargetInfo>> Chips;
  for (int A = 1; A < argc; ++A)
    Chips.emplace_back(T->createMCSubtargetInfo(TT, argv[A], ""));

  raw_ostream &OS = outs();
  for (unsigned Opcode = 0; Opcode < MII->getNumOpcodes(); ++Opcode) {
    const MCInstrDesc &D = MII->get(Opcode);
    if (!D.isPseudo())
      continue;
    OS << "{\"name\":\"" << MII->getName(Opcode) << "\",\"ts\":" << D.TSFlags << ",\"flags\":[";
    flags(OS, *MRI, D);
    OS << "],\"costs\":[";
    for (size_t I = 0; I < Chips.size(); ++I) {
      OS << (I ? "," : "");
      cost(OS, *Chips[I], D);
    }
    OS << "]}\n";
  }
  return 0;
}
