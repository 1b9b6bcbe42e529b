from .opauc import OPAUC
