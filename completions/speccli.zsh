
#compdef speccli

_speccli_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _SPECCLI_COMPLETE=complete_zsh speccli)
}

compdef _speccli_completion speccli

